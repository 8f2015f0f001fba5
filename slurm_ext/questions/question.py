"""A question over the network: its kind, its fields with type and range, and a nonce.

The nonce makes its digest one of a kind. An answer is signed over that digest and its own bytes, so
that neither an earlier answer nor one to another question passes for it.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from slurm_ext.core.errors import WireError
from slurm_ext.core.records import Submission

VERSION = 1
MOST_BYTES = 256 * 1024
MOST_ANSWER_BYTES = 16 * 1024 * 1024
MOST_ROWS, MOST_NODES, MOST_JOBS = 1000, 10_000, 200
_MOST_JOB = 2**63 - 1
_MOST_AMOUNT = 1e18


@dataclass(frozen=True, slots=True)
class Field:
    """One field: what is valid, in words and as a check."""

    valid: str
    ok: Callable[[Any], bool]
    needed: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A decoded question; fields that were not set are absent."""

    kind: str
    fields: Mapping[str, Any]


def _text(most: int = 1024, *, needed: bool = False) -> Field:
    valid = f"a text of at most {most} characters"
    return Field(valid, lambda v: isinstance(v, str) and 0 < len(v) <= most, needed)


def _whole(low: int, high: int, *, needed: bool = False) -> Field:
    valid = f"a whole number from {low} to {high}"
    return Field(valid, lambda v: type(v) is int and low <= v <= high, needed)


def _texts(most: int) -> Field:
    def ok(value: Any) -> bool:
        names = isinstance(value, list) and len(value) <= most
        return names and all(isinstance(v, str) and 0 < len(v) <= 256 for v in value)

    return Field(f"a list of at most {most} names", ok)


_AMOUNT = Field(
    f"a number of at most {_MOST_AMOUNT:g}",
    lambda v: isinstance(v, int | float) and not isinstance(v, bool) and abs(v) <= _MOST_AMOUNT,
)
_FLAG = Field("true or false", lambda v: isinstance(v, bool))
_ROWS = _whole(1, MOST_ROWS, needed=True)
_JOB = Field("a job", lambda v: isinstance(v, dict))
_RUNS = {"user": _text(), "partition": _text(), "since_s": _AMOUNT, "limit": _ROWS}
_TRAINING = {
    "submission": _JOB,
    "name": _text(),
    "user": _text(),
    "gpu_mem_mib": _whole(1, 1 << 40),
    "most_batch": _whole(1, 10**9),
}
FIELDS: Mapping[str, Mapping[str, Field]] = MappingProxyType(
    {
        "ping": {},
        "predict": {"submission": Field(_JOB.valid, _JOB.ok, needed=True)},
        "what_if": {"submission": Field(_JOB.valid, _JOB.ok, needed=True)},
        "explain": {"job": _text(64, needed=True)},
        "jobs": {
            **_RUNS,
            "everybody": _FLAG,
            "states": _texts(64),
            "nodes": _texts(MOST_NODES),
            "jobs": _texts(MOST_JOBS),
        },
        "history_runs": _RUNS,
        "history_job": {"job_id": _whole(0, _MOST_JOB, needed=True)},
        "ranks": _TRAINING,
        "nodes": {
            **_TRAINING,
            "table": _text(MOST_BYTES, needed=True),
            "deadline_s": _AMOUNT,
            "budget": _AMOUNT,
            "samples": _AMOUNT,
            "gradient_bytes": _AMOUNT,
        },
    }
)
"""Kinds of questions and their fields; `submission` is a job as core/wire.py has it."""


def encode(kind: str, fields: Mapping[str, Any]) -> bytes:
    """The question's bytes. Raises WireError where it is too long."""
    body = {name: _plain(value) for name, value in fields.items() if value is not None}
    question = {"v": VERSION, "kind": kind, "nonce": os.urandom(16).hex(), "fields": body}
    raw = json.dumps(question, separators=(",", ":")).encode()
    if len(raw) > MOST_BYTES:
        raise WireError(f"the question has {len(raw)} bytes, at most {MOST_BYTES} are answered")
    return raw


def decode(raw: bytes) -> Question:
    """The question of these bytes. Raises WireError naming the field."""
    try:
        question = json.loads(raw)
        version, kind, fields = (question.get(name) for name in ("v", "kind", "fields"))
    except (ValueError, RecursionError, AttributeError) as error:
        raise WireError(f"not a question in JSON: {error!r:.200}") from None
    if version != VERSION or not isinstance(fields, dict):
        raise WireError(f"a question of version {version!r:.40}, this advisor has {VERSION}")
    if not isinstance(kind, str) or kind not in FIELDS:
        raise WireError(f"unknown kind {kind!r:.40}, expected one of {', '.join(FIELDS)}")
    return Question(kind, _checked(kind, fields))


def answer_digest(question_sha256: str, answer: bytes) -> str:
    """The digest that an answer's credential is over."""
    return sha256(question_sha256.encode() + b"\n" + answer).hexdigest()


def _plain(value: Any) -> Any:
    if not isinstance(value, Submission):
        return value
    from slurm_ext.core.wire import job_json

    return job_json(value)


def _checked(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    allowed = FIELDS[kind]
    for name, value in fields.items():
        if name not in allowed:
            raise WireError(f"{kind} has no {name!r:.40}: {', '.join(allowed)}")
        if not allowed[name].ok(value):
            raise WireError(f"{kind}.{name} is {value!r:.80}, expected {allowed[name].valid}")
    lacking = [name for name, field in allowed.items() if field.needed and name not in fields]
    if lacking:
        raise WireError(f"{kind} needs {', '.join(lacking)}")
    if allowed is FIELDS["ranks"] or allowed is FIELDS["nodes"]:
        _about_one_training(fields)
    checked = dict(fields)
    if "submission" in checked:
        from slurm_ext.core.wire import decode_job

        checked["submission"] = decode_job(checked["submission"])
    return checked


def _about_one_training(fields: Mapping[str, Any]) -> None:
    if ("submission" in fields) == ("name" in fields):
        raise WireError("a training is a submission or a name, not both")
