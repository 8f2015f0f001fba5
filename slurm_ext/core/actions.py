"""One action of a loop on a job or a node; in shadow mode, one that it would have taken.

control/loops/action_log.py writes it as one JSON line, history/ingest/actions.py reads it. A later
line with the same `move_id` adds its outcome.
"""

import json
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
_LARGEST = 1e18


def new_action_id() -> str:
    """A unique id: `m1-` and 16 hexadecimal digits."""
    return f"m1-{secrets.token_hex(8)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One change of `subject`: its reason, its state before and after, and its outcome."""

    move_id: str = field(default_factory=new_action_id)
    at_s: float  # seconds since the epoch
    kind: str  # one of KINDS
    mode: str  # one of MODES; shadow: decided, not applied
    subject: str  # a job as squeue names it (1042, 1042_7) or a node
    job_id: int | None = None  # None: it is about no job
    done: str  # in Slurm's terms: "nice=120", "hold", "requeue 2->4 GPUs", "POWER_DOWN"
    why: str  # one sentence for people
    before: Mapping[str, Any] = field(default_factory=dict)  # JSON
    after: Mapping[str, Any] = field(default_factory=dict)  # JSON
    outcome: str | None = None  # None: not known yet


def encode_action(action: Action) -> str:
    """The journal's line with its newline. Raises RecordError on what `parse_action` refuses."""
    body = {"v": VERSION, **{name: getattr(action, name) for name in Action.__slots__}}
    try:
        line = json.dumps(body, separators=(",", ":"), allow_nan=False, default=dict) + "\n"
    except (ValueError, TypeError, RecursionError) as error:
        raise RecordError("moves", f"{action.subject}: is not JSON: {error}") from None
    parse_action(line.encode())
    return line


def parse_action(line: bytes) -> Action:
    """Parse one line. Raises RecordError on anything else, naming the field."""
    if len(line) > MAX_LINE_BYTES:
        raise RecordError("moves", f"a line of {len(line)} bytes, at most {MAX_LINE_BYTES}")
    try:
        body = json.loads(line)
        json.dumps(body, allow_nan=False)
        if body.pop("v") != VERSION:
            raise ValueError("another version")
        # A field that a later version added does no harm.
        known = {name: body[name] for name in Action.__slots__ if name in body}
        action = Action(**{**known, "move_id": body["move_id"]})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise RecordError("moves", f"is not an action: {error!r:.200}") from None
    _check(action)
    return action


def _check(action: Action) -> None:
    texts = all(_is_text(getattr(action, name)) for name in ("move_id", "subject", "done", "why"))
    _must(texts, "move_id, subject, done and why are texts, not empty")
    _must(action.outcome is None or _is_text(action.outcome), "outcome is a text or null")
    _must(action.kind in KINDS, f"kind is one of {', '.join(KINDS)}")
    _must(action.mode in MODES, f"mode is one of {', '.join(MODES)}")
    _must(_is_number(action.at_s), "at_s is a number of seconds")
    _must(action.job_id is None or _is_id(action.job_id), "job_id is a whole number or null")
    both = isinstance(action.before, Mapping) and isinstance(action.after, Mapping)
    _must(both, "before and after are JSON objects")


def _must(holds: bool, promise: str) -> None:
    if not holds:
        raise RecordError("moves", f"is not an action: {promise}")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_number(value: object) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return value in _INT64
    return isinstance(value, float) and -_LARGEST < value < _LARGEST


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in _INT64
