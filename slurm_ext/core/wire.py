r"""The JSON line between `dlqueue.lua` and the advisor, version 1 (DESIGN section 7).

Request  {"v":1,"kind":"submit","deadline_ms":50,"job":{...}}\n
Reply    {"v":1,"decision":"<token>" | null,"edits":{...},"message":"..." | null}\n

slurmctld adds "rests":N: the times that its breaker has opened since it read dlqueue.lua.

`kind` is `submit` (from slurmctld), `predict` or `what_if` (from people: nothing is recorded), or
`ping`. Field names of `job` are those of `Submission`; absent means unset. Golden lines:
tests/golden/wire.
"""

import json
from dataclasses import asdict, fields
from types import MappingProxyType
from typing import Any

from slurm_ext.core.errors import WireError
from slurm_ext.core.records import Edits, Submission

VERSION = 1
KINDS = ("submit", "predict", "what_if", "ping")
MAX_SCRIPT_BYTES = 256 * 1024
MAX_LINE_BYTES = 4 * MAX_SCRIPT_BYTES  # JSON escapes at most double a text; the rest is small
MAX_MESSAGE_CHARS = 1000

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_RESTS = b'"rests":'
_JOB_TYPES = MappingProxyType(
    {
        f.name: f.type.__name__ if isinstance(f.type, type) else str(f.type)
        for f in fields(Submission)
    }
)


def decode_request(line: bytes) -> tuple[str, Submission | None]:
    """Return a request's kind and submission (None for `ping`). Raises WireError."""
    message = _object(line)
    kind = message.get("kind")
    if message.get("v") != VERSION:
        raise WireError(f"wire version {message.get('v')!r}, this advisor speaks {VERSION}")
    if kind not in KINDS:
        raise WireError(f"unknown kind {kind!r}, expected one of {', '.join(KINDS)}")
    return kind, None if kind == "ping" else decode_job(message.get("job"))


def rests_of(line: bytes) -> int | None:
    """Times that slurmctld's breaker opened; None where the line has no number.

    A search in bytes is enough: inside a JSON text the quotes would have backslashes.
    """
    _, key, after = line.rpartition(_RESTS)
    number = after[:10].split(b",", 1)[0].split(b"}", 1)[0]
    return int(number) if key and number.isdigit() else None


def decode_job(job: object) -> Submission:
    """Return the Submission of a request's `job` object. Raises WireError naming the field."""
    if not isinstance(job, dict):
        raise WireError("the request has no job object")
    values = {name: _checked(name, value) for name, value in job.items() if name in _JOB_TYPES}
    return Submission(**{name: value for name, value in values.items() if value is not None})


def encode_request(kind: str, job: Submission | None = None, deadline_ms: int = 1000) -> bytes:
    """Return a request's line, for people's commands and tests; Lua writes slurmctld's."""
    body: dict[str, Any] = {"v": VERSION, "kind": kind, "deadline_ms": deadline_ms}
    if job is not None:
        body["job"] = {k: v for k, v in asdict(job).items() if v is not None}
    return _encode(body).encode() + b"\n"


def encode_reply(decision: str | None, edits: Edits, message: str | None, **more: Any) -> bytes:
    """Return a reply's line; `more` is for people's commands (Lua ignores unknown keys)."""
    fields_set = ((name, getattr(edits, name)) for name in Edits.__slots__)
    kept = {name: value for name, value in fields_set if value not in (None, {})}
    body = {"v": VERSION, "decision": decision, "edits": kept, "message": message, **more}
    return _encode(body).encode() + b"\n"


def _object(line: bytes) -> dict[str, Any]:
    try:
        # Scripts are bytes in any encoding: other bytes than UTF-8 become surrogates, no error.
        message = json.loads(line.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError) as error:
        raise WireError(f"not a JSON line: {error}") from None
    if not isinstance(message, dict):
        raise WireError(f"expected a JSON object, got {type(message).__name__}")
    return message


def _checked(name: str, value: object) -> Any:
    """Return `value` in its field's type, argv as a tuple. Raises WireError."""
    if value is None:
        return None
    if name == "argv" and isinstance(value, list) and all(isinstance(a, str) for a in value):
        return tuple(value)
    if name == "env" and isinstance(value, dict):
        return {k: v for k, v in value.items() if isinstance(v, str)}
    wanted = _JOB_TYPES[name]
    kind = bool if "bool" in wanted else int if "int" in wanted else str
    if (
        name in ("argv", "env")
        or not isinstance(value, kind)
        or isinstance(value, bool) != (kind is bool)
    ):
        raise WireError(f"job.{name} is {type(value).__name__}, expected {wanted}")
    return value
