"""One line of the advisor's journal: what was proposed for one submission (JSON, version 1).

The server writes `line_of(proposal)`, the keeper reads `proposal_of(line)`; both ends are here.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slurm_ext.core.errors import RecordError
from slurm_ext.core.records import Decision, Edits, Interval, Level, Mode, Prediction, Shape

VERSION = 1
MAX_LINE_BYTES = 64 * 1024


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
    factor: float = 1.0  # by which its intervals were widened
    model: str | None = None  # name of the artifact that answered
    sharing: Mapping[str, Any] | None = None  # advisor/sharing/terms.py's Shared.as_json
    elastic: str | None = None  # what DLQUEUE_ELASTIC said in its environment


def line_of(proposal: Proposal) -> str:
    """The journal line, newline included; any text of a user survives it."""
    keys = {level.name: key for level, key in proposal.keys.items()}
    body = {"v": VERSION, **_members(proposal), "keys": keys}
    return json.dumps(body, separators=(",", ":"), default=_members) + "\n"


def _members(record: Any) -> dict[str, Any]:
    """A slotted record's fields; `asdict` would copy them deeply while slurmctld waits."""
    return {name: getattr(record, name) for name in record.__slots__}


def proposal_of(line: bytes) -> Proposal:
    """The proposal of a journal line. Raises RecordError on anything else."""
    try:
        body = json.loads(line)
        if body.pop("v") != VERSION:
            raise ValueError("another version")
        return _proposal(body)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise RecordError("journal", f"is not a proposal: {error!r}") from None


def _proposal(body: dict[str, Any]) -> Proposal:
    body["mode"] = Mode(body["mode"])
    body["decision"] = _decision(body["decision"])
    body["edits"] = Edits(**body["edits"])
    body["keys"] = {Level[name]: int(key) for name, key in body["keys"].items()}
    return Proposal(**body)


def _decision(body: dict[str, Any]) -> Decision:
    return Decision(
        action=body["action"],
        reason=body["reason"],
        before=Shape(**body["before"]),
        after=Shape(**body["after"]),
        predicted_before=_prediction(body["predicted_before"]),
        predicted_after=_prediction(body["predicted_after"]),
    )


def _prediction(body: dict[str, Any] | None) -> Prediction | None:
    if body is None:
        return None
    shape, interval = Shape(**body.pop("shape")), Interval(**body.pop("interval"))
    return Prediction(**{**body, "level": Level(body["level"])}, shape=shape, interval=interval)
