r"""The line that announces a record, a question or an answer, and munge's credential in it.

    {"v":1,"kind":..,"record_id":..,"bytes":..,"sha256":..,"credential":..}\n<bytes>

Of these only a record has a `record_id`. The credential is munge's over the sha256 of the bytes.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from slurm_ext.core.errors import MissingError, RecordError

RECORD, QUESTION, ANSWER = "record", "question", "answer"
MAX_RECORD_BYTES = 4 * 1024 * 1024
MAX_CREDENTIAL = 16 * 1024
MAX_HEADER_BYTES = MAX_CREDENTIAL + 1024
TIMEOUT_S = 10.0
_RECORD_ID = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9_.+-]{0,219}")
_STATUS = re.compile(rb"STATUS:\s+([^\n(]+)")  # of one that was decoded: expired, replayed
_SAID = re.compile(rb"[^\n]*\nUID:\s+(?:\S+ \()?([0-9]+)\)?\s*\n\n(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """An announcement; `name` is the record's, or the kind of what has none."""

    name: str
    size_bytes: int
    sha256: str
    credential: str


def header_of(line: bytes, kind: str = RECORD, most_bytes: int = MAX_RECORD_BYTES) -> Header:
    """The header of a line that announces this kind. Raises RecordError."""
    try:
        header = json.loads(line)
        if header["v"] != 1 or header["kind"] != kind:
            raise ValueError(f"is not a {kind} of version 1")
        name, size = header["record_id"] if kind == RECORD else kind, header["bytes"]
        if not _RECORD_ID.fullmatch(name) or not 0 < size <= most_bytes:
            raise ValueError(f"has no usable name, or more than {most_bytes} bytes")
        return Header(
            name=name,
            size_bytes=int(size),
            sha256=str(header["sha256"]),
            credential=str(header["credential"]),
        )
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        raise RecordError("header", f"cannot be used: {error!r}"[:200]) from None


def signer(header: Header, munge_socket: str) -> int:
    """Return the uid that signed the announced digest. Raises RecordError, MissingError."""
    uid, payload = signed_by(header.credential, munge_socket)
    if payload.strip() != header.sha256.encode("utf-8", "replace"):
        raise RecordError(header.name, "the credential is for something else")
    return uid


def signed_by(credential: str, munge_socket: str) -> tuple[int, bytes]:
    """The uid and the payload of a credential that has not been seen before.

    Raises RecordError where munge refuses it (forged, expired, replayed), MissingError where
    there is no unmunge.
    """
    command = [
        _unmunge(),
        "--keys=STATUS,UID",
        *([f"--socket={munge_socket}"] if munge_socket else []),
    ]
    try:
        done = _run(command, credential.encode("ascii", "replace")[:MAX_CREDENTIAL])
    except subprocess.TimeoutExpired:
        raise RecordError("munge", f"did not answer within {TIMEOUT_S:.0f} s") from None
    found, status = _SAID.fullmatch(done.stdout), _STATUS.match(done.stdout)
    if done.returncode != 0 or found is None:
        why = done.stderr.strip() or (status[1].strip() if status else b"does not say why")
        raise RecordError("munge", why.decode("utf-8", "replace")[:200])
    return int(found[1]), found[2]


def _run(command: Sequence[str], stdin: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, input=stdin, capture_output=True, timeout=TIMEOUT_S, check=False)


def _unmunge() -> str:
    command = shutil.which("unmunge") or shutil.which("unmunge", path="/usr/bin:/usr/local/bin")
    if command is None:
        raise MissingError("unmunge is not installed", "install munge, or use the folder transport")
    return command
