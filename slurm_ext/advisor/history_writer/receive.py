r"""Receives records that nodes stream: a header line, the record, and an acknowledgement.

    {"v":1,"kind":"record","record_id":..,"bytes":..,"sha256":..,"credential":..}\n<bytes>
    {"v":1,"ack":record_id}\n    or    {"v":1,"error":why}\n and the connection ends

The credential is munge's over the record's sha256, and is judged before a byte of the record is
read. It is accepted from root and from trusted uids, whose word on a job counts; where
advisor.accept_job_owners is set also from the job's user, for what was measured alone (owners.py).
An error with "final":true will be the same whenever the record is sent again. A record is
acknowledged once it lies in the spool, synced.
"""

import io
import json
import logging
import socket
import socketserver
import sys
import threading
import time
from contextlib import suppress
from hashlib import sha256
from typing import Any, cast

from slurm_ext.advisor.history_writer.header import (
    MAX_HEADER_BYTES,
    MAX_RECORD_BYTES,
    Header,
    header_of,
    signer,
)
from slurm_ext.advisor.history_writer.owners import ForeignRecordError, JobOwners
from slurm_ext.advisor.history_writer.slurm_record import name_of, put
from slurm_ext.advisor.limits.rules import client_of
from slurm_ext.advisor.places import Places, TimedReader
from slurm_ext.core.errors import DlqueueError, InputError, RecordError
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm import SlurmClient

MOST_CONNECTIONS = 64
MOST_OF_PEER = 16  # a node has one worker, but several nodes may share an address (NAT, a sandbox)
POLL_S = 0.1  # how soon it ends
HEADER_S = 10.0  # for a whole header: a node asks munge for it
BODY_S = 60.0  # for a whole record of MAX_RECORD_BYTES: 70 KB/s
REPLY_S = 10.0
REST_S = 5.0  # for the rest of a record that was refused: an end that is reset hides the reason
REPORT_EVERY_S = 10.0
log = logging.getLogger(__name__)


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
    """A thread a connection, as many as there are places."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], settings: Settings, client: SlurmClient) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.spool = settings.state_dir / "spool"
        self.owners = JobOwners(client, settings.state_dir)
        self.munge_socket: str = settings["node.munge_socket"]
        self.places = Places(most=MOST_CONNECTIONS, of_peer=MOST_OF_PEER)
        self._owners_turn = threading.Lock()  # a record of 4 MiB takes 100 MiB while it is parsed
        self._refused, self._reported_s = 0, float("-inf")
        self.take(settings)
        super().__init__(address, _Connection)

    def take(self, settings: Settings) -> None:
        """Take cluster and accepted senders from the settings, from now on."""
        self.cluster: str = settings["site.cluster"]
        self.trusted = frozenset({0, *settings["advisor.trusted_uids"]})
        self.accepts_owners: bool = settings["advisor.accept_job_owners"]

    def sender(self, header: Header) -> int:
        """The uid that may send the announced record. Raises RecordError, MissingError."""
        uid = signer(header, self.munge_socket)
        if uid not in self.trusted and not self.accepts_owners:
            raise RecordError(header.record_id, f"uid {uid} is not in advisor.trusted_uids")
        return uid

    def keep(self, header: Header, uid: int, raw: bytes) -> None:
        """Put the record into the spool. Raises DlqueueError where it is refused, OSError."""
        if sha256(raw).hexdigest() != header.sha256:
            raise RecordError(header.record_id, "does not match its sha256")
        name = header.record_id
        if uid not in self.trusted:
            # A name of its own: the node's record may lie in the spool at this moment.
            name = f"{name}.owner"
            with self._owners_turn:
                raw = self._as_slurm_says(header, uid, raw, name)
        elif (said := parse_record(header, raw)["identity"].get("cluster")) != self.cluster:
            why = f"cluster {said!r:.80} is not ours, {self.cluster!r}"
            raise RecordError(header.record_id, why)
        put(self.spool, name, raw)

    def _as_slurm_says(self, header: Header, uid: int, raw: bytes, name: str) -> bytes:
        record = parse_record(header, raw)
        record = self.owners.as_slurm_says(record, uid, self.cluster)
        raw = json.dumps(record, separators=(",", ":")).encode()
        self.owners.make_room(uid, self.spool / f"{name}.json", len(raw))
        return raw

    def report(self, peer: object, error: BaseException | None) -> None:
        """Log a refusal, or count it for the next line: a peer must not fill the log."""
        self._refused += 1
        if time.monotonic() - self._reported_s < REPORT_EVERY_S:
            return
        counted = f" ({self._refused} since the last line)" if self._refused > 1 else ""
        log.warning("a record from %s was refused: %s%s", peer, error, counted)
        self._refused, self._reported_s = 0, time.monotonic()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """True if there is a place for one more connection."""
        return self.places.admit(request, client_address[0])

    def shutdown_request(self, request: Any) -> None:
        """As the base class does it, and the place is free again, whatever happened."""
        self.places.leave(request)
        super().shutdown_request(request)

    def handle_error(self, _: Any, client_address: Any) -> None:
        """A connection that broke is the node's to repeat."""
        self.report(client_address, sys.exception())


class _Connection(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        receiver = cast(Receiver, self.server)
        self.timed = TimedReader(self.request)
        self.stream = io.BufferedReader(self.timed)
        try:
            while line := self._line():
                self._reply({"v": 1, "ack": self._take(receiver, line)})
        except (DlqueueError, OSError) as error:
            receiver.report(self.client_address, error)
            final = {"final": True} if isinstance(error, ForeignRecordError) else {}
            with suppress(OSError):  # it has gone
                self._reply({"v": 1, "error": str(error), **final})
                self._read_rest()

    def _line(self) -> bytes:
        self.timed.allow(HEADER_S)
        return self.stream.readline(MAX_HEADER_BYTES)

    def _take(self, receiver: Receiver, line: bytes) -> str:
        header = header_of(line)
        uid = receiver.sender(header)
        if uid in receiver.trusted:
            receiver.places.prove(self.request)
        self.timed.allow(BODY_S)
        raw = self.stream.read(header.size_bytes)
        if len(raw) < header.size_bytes:
            raise RecordError(header.record_id, "ended early")
        receiver.keep(header, uid, raw)
        return header.record_id

    def _reply(self, body: dict[str, object]) -> None:
        self.request.settimeout(REPLY_S)
        self.request.sendall(json.dumps(body).encode() + b"\n")

    def _read_rest(self) -> None:
        """Read what the peer still sends, and forget it."""
        self.request.shutdown(socket.SHUT_WR)
        self.timed.allow(REST_S)
        left = MAX_RECORD_BYTES
        while left > 0 and (piece := self.stream.read1(1 << 16)):
            left -= len(piece)


def parse_record(header: Header, raw: bytes) -> dict[str, Any]:
    """The record, whose name is the header's and follows from its job. Raises RecordError."""
    try:
        record: dict[str, Any] = json.loads(raw)
        identity = record["identity"]
        if record["record_id"] != header.record_id or not isinstance(identity, dict):
            raise ValueError("another name inside")
        if header.record_id != name_of(identity):
            raise ValueError("not the name of its job's record")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise RecordError(header.record_id, f"is not a record: {error!r}"[:200]) from None
    return record
