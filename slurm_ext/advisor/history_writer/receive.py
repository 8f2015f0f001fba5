r"""Receives records that nodes stream: a header line, the record, and an acknowledgement.

    {"v":1,"kind":"record","record_id":..,"bytes":..,"sha256":..,"credential":..}\n<bytes>
    {"v":1,"ack":record_id}\n    or    {"v":1,"error":why}\n and the connection ends

The credential is munge's over the record's sha256, and is judged before a byte of the record is
read. It is accepted from root and from trusted uids, whose word on a job counts; where
advisor.accept_job_owners is set also from the job's user, for what was measured alone (owners.py).
An error with "final":true will be the same whenever the record is sent again. A record is
acknowledged once it lies in the spool, synced.
"""

import json
import threading
from contextlib import suppress
from hashlib import sha256
from typing import Any, cast

from slurm_ext.advisor.history_writer.owners import ForeignRecordError, JobOwners
from slurm_ext.advisor.history_writer.slurm_record import name_of, put
from slurm_ext.advisor.limits.rules import client_of
from slurm_ext.advisor.places import Places
from slurm_ext.advisor.stream_header import MAX_RECORD_BYTES, Header, header_of, signer
from slurm_ext.advisor.stream_server import POLL_S, StreamConnection, StreamServer, address_of
from slurm_ext.core.errors import DlqueueError, InputError, RecordError
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm import SlurmClient

MOST_CONNECTIONS = 64
MOST_OF_PEER = 16  # a node has one worker, but several nodes may share an address (NAT, a sandbox)
BODY_S = 60.0  # for a whole record of MAX_RECORD_BYTES: 70 KB/s


def start_receiver(settings: Settings, client: SlurmClient | None = None) -> "Receiver | None":
    """The receiver at advisor.listen, in its own threads; None where the setting is empty."""
    where = settings["advisor.listen"]
    if not where:
        return None
    address = address_of(settings.source, "advisor.listen", where)
    try:
        receiver = Receiver(address, settings, client or client_of(settings))
    except (OSError, OverflowError) as error:
        raise InputError(settings.source, f"advisor.listen = {where!r}: {error}") from None
    threading.Thread(
        target=receiver.serve_forever, args=(POLL_S,), name="stream", daemon=True
    ).start()
    return receiver


class Receiver(StreamServer):
    """Takes records from nodes."""

    what = "a record"

    def __init__(self, address: tuple[str, int], settings: Settings, client: SlurmClient) -> None:
        self.spool = settings.state_dir / "spool"
        self.owners = JobOwners(client, settings.state_dir)
        self.munge_socket: str = settings["node.munge_socket"]
        self._owners_turn = threading.Lock()  # a record of 4 MiB takes 100 MiB while it is parsed
        self.take(settings)
        places = Places(most=MOST_CONNECTIONS, of_peer=MOST_OF_PEER)
        super().__init__(address, _Connection, places)

    def take(self, settings: Settings) -> None:
        """Take cluster and accepted senders from the settings, from now on."""
        self.cluster: str = settings["site.cluster"]
        self.trusted = frozenset({0, *settings["advisor.trusted_uids"]})
        self.accepts_owners: bool = settings["advisor.accept_job_owners"]

    def sender(self, header: Header) -> int:
        """The uid that may send the announced record. Raises RecordError, MissingError."""
        uid = signer(header, self.munge_socket)
        if uid not in self.trusted and not self.accepts_owners:
            raise RecordError(header.name, f"uid {uid} is not in advisor.trusted_uids")
        return uid

    def keep(self, header: Header, uid: int, raw: bytes) -> None:
        """Put the record into the spool. Raises DlqueueError where it is refused, OSError."""
        if sha256(raw).hexdigest() != header.sha256:
            raise RecordError(header.name, "does not match its sha256")
        name = header.name
        if uid not in self.trusted:
            # A name of its own: the node's record may lie in the spool at this moment.
            name = f"{name}.owner"
            with self._owners_turn:
                raw = self._as_slurm_says(header, uid, raw, name)
        elif (cluster := parse_record(header, raw)["identity"].get("cluster")) != self.cluster:
            why = f"cluster {cluster!r:.80} is not ours, {self.cluster!r}"
            raise RecordError(header.name, why)
        put(self.spool, name, raw)

    def _as_slurm_says(self, header: Header, uid: int, raw: bytes, name: str) -> bytes:
        record = parse_record(header, raw)
        record = self.owners.as_slurm_says(record, uid, self.cluster)
        raw = json.dumps(record, separators=(",", ":")).encode()
        self.owners.make_room(uid, self.spool / f"{name}.json", len(raw))
        return raw


class _Connection(StreamConnection):
    def handle(self) -> None:
        receiver = cast(Receiver, self.server)
        try:
            while line := self.read_line():
                self.reply({"v": 1, "ack": self._take(receiver, line)})
        except (DlqueueError, OSError) as error:
            receiver.report(self.client_address, error)
            final = {"final": True} if isinstance(error, ForeignRecordError) else {}
            with suppress(OSError):  # it has gone
                self.reply({"v": 1, "error": str(error), **final})
                self.read_rest(MAX_RECORD_BYTES)

    def _take(self, receiver: Receiver, line: bytes) -> str:
        header = header_of(line)
        uid = receiver.sender(header)
        if uid in receiver.trusted:
            receiver.places.prove(self.request)
        raw = self.read_body(header.size_bytes, BODY_S)
        if len(raw) < header.size_bytes:
            raise RecordError(header.name, "ended early")
        receiver.keep(header, uid, raw)
        return header.name


def parse_record(header: Header, raw: bytes) -> dict[str, Any]:
    """The record, whose name is the header's and follows from its job. Raises RecordError."""
    try:
        record: dict[str, Any] = json.loads(raw)
        identity = record["identity"]
        if record["record_id"] != header.name or not isinstance(identity, dict):
            raise ValueError("another name inside")
        if header.name != name_of(identity):
            raise ValueError("not the name of its job's record")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise RecordError(header.name, f"is not a record: {error!r}"[:200]) from None
    return record
