r"""The JSON line between `dlqueue.lua` and the advisor, version 1 (DESIGN section 7).

Request  {"v":1,"kind":"submit","deadline_ms":50,"job":{...}}\n
Reply    {"v":1,"decision":"<token>" | null,"edits":{...},"message":"..." | null}\n

slurmctld's request has version 2. Its line begins with {"v":2,"raw":N and holds the job's numbers;
N bytes follow it, which are the job's texts as they are (`texts_of`): Lua needs a millisecond to
write 32 KiB as JSON. It has "rests":N too: the times that its breaker has opened
since slurmctld read dlqueue.lua.

`kind` is `submit` (from slurmctld), `predict` or `what_if` (from people: nothing is recorded), or
`ping`, whose reply has "runs", "model" and "limits": false until Slurm's limits are read, and jobs
go as written. Field names of `job` are those of `Submission`; absent means unset. Golden lines:
tests/golden/wire.
"""

import json
import re
from dataclasses import asdict, fields
from types import MappingProxyType
from typing import Any

from slurm_ext.core.errors import WireError
from slurm_ext.core.job_keys import seen_script
from slurm_ext.core.records import ENV_NAMES, Edits, Submission

VERSION, RAW_VERSION = 1, 2
KINDS = ("submit", "predict", "what_if", "ping")
MAX_LINE_BYTES = 1024 * 1024  # of a request: more than any Lua of ours sends
MAX_TEXT, MAX_WORDS, MAX_WORD = 1024, 64, 512  # of a text; of arguments; Lua cuts the same
MAX_MESSAGE_CHARS = 1000
_MAX_NUMBER = 2**63 - 1

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_RESTS = b'"rests":'
_RAW = re.compile(rb'\{"v":2,"raw":([0-9]{1,7}),')
_JOB_TYPES = MappingProxyType(
    {
        f.name: f.type.__name__ if isinstance(f.type, type) else str(f.type)
        for f in fields(Submission)
    }
)


def raw_size(received: bytes | bytearray) -> int:
    """Bytes that follow the line of a request; 0 of version 1."""
    raw = _RAW.match(received)
    return 0 if raw is None else int(raw[1])


def request_size(received: bytes | bytearray) -> int | None:
    """Bytes of the first request in what was received; None where it is not whole yet."""
    end = received.find(b"\n") + 1
    size = end + raw_size(received)
    return size if end and size <= len(received) else None


def decode_request(request: bytes) -> tuple[str, Submission | None]:
    """Return a request's kind and submission (None for `ping`). Raises WireError."""
    line, _, raw = request.partition(b"\n")
    message = _object(line)
    kind, version, job = message.get("kind"), message.get("v"), message.get("job")
    if version not in (VERSION, RAW_VERSION):
        raise WireError(f"wire version {version!r}, this advisor speaks {VERSION}")
    if kind not in KINDS:
        raise WireError(f"unknown kind {kind!r}, expected one of {', '.join(KINDS)}")
    if version == RAW_VERSION and isinstance(job, dict):
        job = {**texts_of(raw), **job}
    return kind, None if kind == "ping" else decode_job(job)


def rests_of(line: bytes) -> int | None:
    """Times that slurmctld's breaker opened; None where the line has no number.

    A search in bytes is enough: inside a JSON text the quotes would have backslashes.
    """
    _, key, after = line.partition(b"\n")[0].rpartition(_RESTS)
    number = after[:10].split(b",", 1)[0].split(b"}", 1)[0]
    return int(number) if key and number.isdigit() else None


def decode_job(job: object) -> Submission:
    """Return the Submission of a request's `job` object. Raises WireError naming the field."""
    if not isinstance(job, dict):
        raise WireError("the request has no job object")
    values = {
        name: _checked(name, value)
        for name, value in job.items()
        if name in _JOB_TYPES and value is not None
    }
    if "script" in values:
        values["script"], cut = seen_script(values["script"])
        values["script_truncated"] = cut or values.get("script_truncated", False)
    return Submission(**values)


def encode_request(kind: str, job: Submission | None = None, deadline_ms: int = 1000) -> bytes:
    """Return a request's line, for people's commands and tests; Lua writes slurmctld's."""
    body: dict[str, Any] = {"v": VERSION, "kind": kind, "deadline_ms": deadline_ms}
    if job is not None:
        body["job"] = job_json(job)
    return _encode(body).encode() + b"\n"


def job_json(job: Submission) -> dict[str, Any]:
    """Return the `job` object of a request."""
    return {name: value for name, value in asdict(job).items() if value is not None}


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


def texts_of(raw: bytes) -> dict[str, Any]:
    """Texts of a job as Lua sends them: `name=value`, ended by NUL, which no text holds.

    Arguments come one by one as `argv`, variables as `env.NAME`.
    """
    argv: list[str] = []
    env: dict[str, str] = {}
    texts: dict[str, Any] = {"argv": argv, "env": env}
    for part in raw.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        name, _, value = part.partition("=")
        if name == "argv":
            argv.append(value)
        elif name.startswith("env."):
            env[name[4:]] = value
        else:
            texts[name] = value
    return texts


def _checked(name: str, value: Any) -> Any:
    """Return `value` in its field's type, without what is beyond its bounds. Raises WireError."""
    if name == "argv" and isinstance(value, list) and all(isinstance(a, str) for a in value):
        return tuple([word[:MAX_WORD] for word in value[:MAX_WORDS]])
    if name == "env" and isinstance(value, dict):
        return {k: value[k][:MAX_TEXT] for k in ENV_NAMES if isinstance(value.get(k), str)}
    wanted = _JOB_TYPES[name]
    kind = bool if "bool" in wanted else int if "int" in wanted else str
    if (
        name in ("argv", "env")
        or not isinstance(value, kind)
        or isinstance(value, bool) != (kind is bool)
    ):
        raise WireError(f"job.{name} is {type(value).__name__}, expected {wanted}")
    if isinstance(value, str):
        return value if name == "script" else value[:MAX_TEXT]
    if not -_MAX_NUMBER <= value <= _MAX_NUMBER:
        raise WireError(f"job.{name} is out of range")
    return value
