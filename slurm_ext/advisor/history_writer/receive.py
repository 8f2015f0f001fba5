r"""Receives records that nodes stream: a header line, the record, and an acknowledgement.

    {"v":1,"kind":"record","record_id":..,"bytes":..,"sha256":..,"credential":..}\n<bytes>
    {"v":1,"ack":record_id}\n    or    {"v":1,"error":why}\n and the connection ends

The credential is munge's over the record's sha256. It is accepted from root, from a trusted uid,
and from the job's owner, as Slurm or the history knows them. An error with "final":true will be the
same whenever the record is sent again. A record is acknowledged once it lies in the spool, synced.
"""

import json
import logging
import re
import socket
import socketserver
import sys
import threading
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, cast

from slurm_ext.advisor.history_writer.owners import (
    MAX_CREDENTIAL,
    ForeignRecordError,
    JobOwners,
    signed_by,
)
from slurm_ext.advisor.limits.rules import client_of
from slurm_ext.core.errors import DlqueueError, InputError, RecordError
from slurm_ext.core.files import replace_file
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm import SlurmClient

MAX_RECORD_BYTES = 4 * 1024 * 1024
MAX_HEADER_BYTES = MAX_CREDENTIAL + 1024
MOST_CONNECTIONS = 64
POLL_S = 0.1  # how soon it ends
SILENCE_S = 30.0  # a node that says nothing for so long has gone
_RECORD_ID = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9_.+-]{0,219}")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The announcement of one record."""

    record_id: str
    size_bytes: int
    sha256: str
    credential: str


def header_of(line: bytes) -> Header:
    """The header of a line. Raises RecordError."""
    try:
        said = json.loads(line)
        if said["v"] != 1 or said["kind"] != "record":
            raise ValueError("is not a record of version 1")
        name, size = said["record_id"], said["bytes"]
        if not _RECORD_ID.fullmatch(name) or not 0 < size <= MAX_RECORD_BYTES:
            raise ValueError(f"has no usable name, or more than {MAX_RECORD_BYTES} bytes")
        return Header(
            record_id=name,
            size_bytes=int(size),
            sha256=str(said["sha256"]),
            credential=str(said["credential"]),
        )
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise RecordError("header", f"cannot be used: {error!r}"[:200]) from None


def check(header: Header, raw: bytes, munge_socket: str) -> int:
    """Return the uid that signed a complete record. Raises RecordError, MissingError."""
    if sha256(raw).hexdigest() != header.sha256:
        raise RecordError(header.record_id, "does not match its sha256")
    uid, payload = signed_by(header.credential, munge_socket)
    if payload.strip() != header.sha256.encode():
        raise RecordError(header.record_id, "the credential is for something else")
    return uid


def check_owner(header: Header, raw: bytes, uid: int, cluster: str, owners: JobOwners) -> None:
    """That the record is about a job of `uid`'s on our cluster. Raises DlqueueError."""
    identity = _identity(header, raw)
    if identity.get("uid") != uid or not _named_after(header, identity):
        raise ForeignRecordError(header.record_id, f"uid {uid} may not send another user's record")
    if identity.get("cluster") != cluster:
        raise ForeignRecordError(
            header.record_id, f"cluster {identity.get('cluster')!r:.80} is not ours"
        )
    owners.check(identity.get("job_id"), uid, header.record_id)


def record_id(*, cluster: str, job_id: str, restart: str, node: str) -> str:
    """A record's name as nodes make it (node/common/spool_layout.py), safe whatever its parts."""
    return re.sub(r"[^A-Za-z0-9_.+-]", "_", f"{cluster[:80]}-{job_id}-{restart}-{node[:80]}")


def put(spool: Path, name: str, raw: bytes) -> None:
    """The record as `name`.json in the spool, safe on disk when this returns. Raises OSError."""
    spool.mkdir(parents=True, exist_ok=True)
    replace_file(spool / f"{name}.json", raw)


def start_receiver(settings: Settings, client: SlurmClient | None = None) -> "Receiver | None":
    """The receiver at advisor.listen, in its own threads; None where the setting is empty."""
    where = settings["advisor.listen"]
    if not where:
        return None
    host, _, port = where.rpartition(":")
    if not port.isdecimal() or not host:
        raise InputError(settings.source, f"advisor.listen = {where!r} is not host:port")
    try:
        receiver = Receiver((host.strip("[]"), int(port)), settings, client or client_of(settings))
    except (OSError, OverflowError) as error:
        raise InputError(settings.source, f"advisor.listen = {where!r}: {error}") from None
    threading.Thread(
        target=receiver.serve_forever, args=(POLL_S,), name="stream", daemon=True
    ).start()
    return receiver


class Receiver(socketserver.ThreadingTCPServer):
    """A thread a connection, at most MOST_CONNECTIONS of them."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], settings: Settings, client: SlurmClient) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.spool = settings.state_dir / "spool"
        self.owners = JobOwners(client, settings.state_dir / "history.db")
        self.munge_socket: str = settings["node.munge_socket"]
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self.take(settings)
        super().__init__(address, _Connection)

    def take(self, settings: Settings) -> None:
        """Take cluster and trusted uids from the settings, from now on."""
        self.cluster: str = settings["site.cluster"]
        self.trusted = frozenset({0, *settings["advisor.trusted_uids"]})

    def verify_request(self, *_: Any) -> bool:
        """True if there is a place for one more connection."""
        return self._free.acquire(blocking=False)

    def process_request(self, request: Any, client_address: Any) -> None:
        """As the base class does it; where no thread can be started, the place is free again."""
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """As the base class does it, and the place is free again."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, _: Any, client_address: Any) -> None:
        """A connection that broke is the node's to repeat."""
        log.info("the stream from %s broke: %s", client_address, sys.exception())


class _Connection(socketserver.StreamRequestHandler):
    timeout = SILENCE_S

    def handle(self) -> None:
        receiver = cast(Receiver, self.server)
        stream = cast(BinaryIO, self.rfile)
        while line := stream.readline(MAX_HEADER_BYTES):
            try:
                name = _take(receiver, line, stream)
            except (DlqueueError, OSError) as error:
                log.warning("a record from %s was refused: %s", self.client_address, error)
                final = {"final": True} if isinstance(error, ForeignRecordError) else {}
                self._say({"v": 1, "error": str(error), **final})
                return
            self._say({"v": 1, "ack": name})

    def _say(self, body: dict[str, object]) -> None:
        self.wfile.write(json.dumps(body).encode() + b"\n")


def _take(receiver: Receiver, line: bytes, stream: BinaryIO) -> str:
    header = header_of(line)
    raw = stream.read(header.size_bytes)
    if len(raw) < header.size_bytes:
        raise RecordError(header.record_id, "ended early")
    uid = check(header, raw, receiver.munge_socket)
    if uid in receiver.trusted:
        _identity(header, raw)
    else:
        check_owner(header, raw, uid, receiver.cluster, receiver.owners)
    put(receiver.spool, header.record_id, raw)
    return header.record_id


def _identity(header: Header, raw: bytes) -> dict[str, Any]:
    """Return the record's identity part; its name has to match the header's."""
    try:
        record = json.loads(raw)
        identity = record["identity"]
        if record["record_id"] != header.record_id or not isinstance(identity, dict):
            raise ValueError("another name inside")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise RecordError(header.record_id, f"is not a record: {error!r}"[:200]) from None
    return identity


def _named_after(header: Header, identity: dict[str, Any]) -> bool:
    named = {name: str(identity.get(name)) for name in ("cluster", "job_id", "restart", "node")}
    return header.record_id == record_id(**named)
