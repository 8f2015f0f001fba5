"""A move: one thing that a cluster loop did, or in shadow would have done, to a job or a node.

Written as one JSON line by control/loops/action_log.py, read by history/ingest/actions.py; both
ends are here. A later
line with the same `move_id` tells its outcome.
"""

import json
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slurm_ext.core.errors import RecordError

VERSION = 1
MAX_LINE_BYTES = 64 * 1024
KINDS = ("pair", "queue", "elastic", "energy")
MODES = ("shadow", "act")
_INT64 = range(-(1 << 63), 1 << 63)


def new_action_id() -> str:
    """A name that no other move has: `m1-` and 16 hexadecimal digits."""
    return f"m1-{secrets.token_hex(8)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What was done to `subject`, why, and what came of it."""

    move_id: str = field(default_factory=new_action_id)
    at_s: float  # seconds since the epoch
    kind: str  # one of KINDS
    mode: str  # one of MODES; shadow: it was only decided
    subject: str  # a job as squeue names it (1042, 1042_7) or a node
    job_id: int | None = None  # None: it concerns no job
    done: str  # in Slurm's words: "nice=120", "hold", "requeue 2->4 GPUs", "POWER_DOWN"
    why: str  # one sentence for people
    before: Mapping[str, Any] = field(default_factory=dict)  # JSON
    after: Mapping[str, Any] = field(default_factory=dict)  # JSON
    outcome: str | None = None  # None: not known yet


def encode_action(move: Action) -> str:
    """The journal's line with its newline. Raises RecordError on what `parse_action` refuses."""
    body = {"v": VERSION, **{name: getattr(move, name) for name in Action.__slots__}}
    try:
        line = json.dumps(body, separators=(",", ":"), allow_nan=False, default=dict) + "\n"
    except (ValueError, TypeError, RecursionError) as error:
        raise RecordError("moves", f"{move.subject}: is not JSON: {error}") from None
    parse_action(line.encode())
    return line


def parse_action(line: bytes) -> Action:
    """The move of one line. Raises RecordError on anything else, naming the field."""
    if len(line) > MAX_LINE_BYTES:
        raise RecordError("moves", f"a line of {len(line)} bytes, at most {MAX_LINE_BYTES}")
    try:
        body = json.loads(line)
        json.dumps(body, allow_nan=False)
        if body.pop("v") != VERSION:
            raise ValueError("another version")
        move = Action(**{**body, "move_id": body["move_id"]})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise RecordError("moves", f"is not a move: {error!r:.200}") from None
    _check(move)
    return move


def _check(move: Action) -> None:
    texts = all(_is_text(getattr(move, name)) for name in ("move_id", "subject", "done", "why"))
    _must(texts, "move_id, subject, done and why are texts, not empty")
    _must(move.outcome is None or _is_text(move.outcome), "outcome is a text or null")
    _must(move.kind in KINDS, f"kind is one of {', '.join(KINDS)}")
    _must(move.mode in MODES, f"mode is one of {', '.join(MODES)}")
    _must(_is_number(move.at_s), "at_s is a number of seconds")
    _must(move.job_id is None or _is_id(move.job_id), "job_id is a whole number or null")
    both = isinstance(move.before, Mapping) and isinstance(move.after, Mapping)
    _must(both, "before and after are JSON objects")


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise RecordError("moves", f"is not a move: {what}")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_number(value: object) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return value in _INT64
    return isinstance(value, float) and math.isfinite(value)


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in _INT64
