"""One line of the advisor's journal: what was proposed for one submission (JSON, version 1).

The server writes `line_of(proposal)`, the keeper reads `proposal_of(line)`; both ends are here.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from slurm_ext.core.errors import RecordError
from slurm_ext.core.records import (
    Decision,
    Edits,
    Elsewhere,
    Interval,
    Level,
    Mode,
    Prediction,
    Shape,
)
from slurm_ext.history.store.names import STORED_LEVELS

VERSION = 1
MAX_LINE_BYTES = 64 * 1024
T = TypeVar("T")
_LARGEST = 1e18  # of any figure; infinities and what is not a number are beyond
_INT64 = range(-(1 << 63), 1 << 63)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A decision with the submission it answers; everything that `explain` will need."""

    token: str
    decided_s: float
    mode: Mode
    holdout: bool = False
    user: str = ""
    uid: int = -1
    job_name: str = ""
    account: str | None = None
    partition: str | None = None
    decision: Decision
    edits: Edits = field(default_factory=Edits)
    message: str | None = None
    keys: Mapping[Level, int] = field(default_factory=dict)
    factor: float = 1.0  # by which its intervals on cores of its own were widened
    factor_beside: float = 1.0  # the same beside others
    model: str | None = None  # name of the artifact that answered
    sharing: Mapping[str, Any] | None = None  # advisor/sharing/terms.py's Shared.as_json
    elastic: str | None = None  # what DLQUEUE_ELASTIC said in its environment
    ranks: int | None = None  # training processes that what is told is of
    buckets: Mapping[str, Any] | None = None  # advisor/buckets/decision.py's as_json


def line_of(proposal: Proposal) -> str:
    """The journal line, newline included; any text of a user survives it."""
    keys = {level.name: key for level, key in proposal.keys.items() if level in STORED_LEVELS}
    body = {"v": VERSION, **_members(proposal), "keys": keys}
    return _encode(body) + "\n"


def _members(record: Any) -> dict[str, Any]:
    """A slotted record's fields; `asdict` would copy them deeply while slurmctld waits."""
    return {name: getattr(record, name) for name in record.__slots__}


_encode = json.JSONEncoder(separators=(",", ":"), default=_members).encode


def proposal_of(line: bytes) -> Proposal:
    """The proposal of a journal line, each field of its type. Raises RecordError on all else."""
    if len(line) > MAX_LINE_BYTES:
        raise RecordError("journal", f"a line of {len(line)} bytes, at most {MAX_LINE_BYTES}")
    try:
        body = json.loads(line)
        if body.pop("v") != VERSION:
            raise ValueError("another version")
        return _proposal(body)
    except Exception as error:  # whatever it holds, it is this line's fault
        raise RecordError("journal", f"is not a proposal: {error!r:.200}") from None


def _proposal(body: dict[str, Any]) -> Proposal:
    body["mode"] = Mode(body["mode"])
    body["decision"] = _decision(body["decision"])
    body["edits"] = _typed(Edits(**_known(Edits, body["edits"])))
    body["keys"] = {Level[name]: key for name, key in body["keys"].items()}
    return _typed(Proposal(**_known(Proposal, body)))


def _known(kind: type, body: dict[str, Any]) -> dict[str, Any]:
    """The fields that this version knows: one that a later version added does no harm."""
    names: tuple[str, ...] = kind.__slots__  # type: ignore[attr-defined]  # all are slotted
    return {name: body[name] for name in names if name in body}


def _decision(body: dict[str, Any]) -> Decision:
    return _typed(
        Decision(
            action=body["action"],
            reason=body["reason"],
            before=_typed(Shape(**_known(Shape, body["before"]))),
            after=_typed(Shape(**_known(Shape, body["after"]))),
            predicted_before=_prediction(body["predicted_before"]),
            predicted_after=_prediction(body["predicted_after"]),
        )
    )


def _prediction(body: dict[str, Any] | None) -> Prediction | None:
    if body is None:
        return None
    other = body.get("elsewhere")
    own = {
        **_known(Prediction, body),
        "shape": _typed(Shape(**_known(Shape, body["shape"]))),
        "interval": _interval(body),
        "level": Level(body["level"]),
        "elsewhere": None if other is None else _elsewhere(other),
    }
    return _typed(Prediction(**own))


def _elsewhere(body: dict[str, Any]) -> Elsewhere:
    return _typed(Elsewhere(**{**_known(Elsewhere, body), "interval": _interval(body)}))


def _interval(body: dict[str, Any]) -> Interval:
    return _typed(Interval(**_known(Interval, body["interval"])))


def _typed(record: T) -> T:
    """The record, if each field's value is of its type. Raises ValueError."""
    kind: Any = type(record)
    for name, hint in _hints(kind).items():
        value = getattr(record, name)
        if not _fits(value, hint):
            raise ValueError(f"{name} is {value!r:.80}, expected {hint}")
    return record


_hints = cache(get_type_hints)


def _fits(value: object, hint: Any) -> bool:
    kind = get_origin(hint) or hint
    if kind is UnionType:
        return any(_fits(value, one) for one in get_args(hint))
    if kind is Mapping:
        key, item = get_args(hint)
        return isinstance(value, dict) and all(
            _fits(name, key) and _fits(one, item) for name, one in value.items()
        )
    if kind is float:
        return type(value) in (int, float) and -_LARGEST <= value <= _LARGEST  # type: ignore[operator]
    if kind is int:
        return type(value) is int and value in _INT64
    return kind is Any or (isinstance(value, kind))
