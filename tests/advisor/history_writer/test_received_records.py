"""Records over the stream: who may send which, and every reply."""

import json
import socket
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.advisor.history_writer import receive
from slurm_ext.advisor.history_writer.owners import ForeignRecordError, JobOwners
from slurm_ext.advisor.history_writer.receive import (
    MOST_CONNECTIONS,
    Header,
    Receiver,
    check,
    check_owner,
    put,
    record_id,
    start_receiver,
)
from slurm_ext.core.errors import (
    InputError,
    RecordError,
)
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm import JobInfo, MemoryClient


def a_record(**identity: Any) -> tuple[Header, bytes]:
    """A record of uid 7's job on our cluster, and its header."""
    own = {"cluster": "c", "job_id": 5, "restart": 0, "node": "n", "uid": 7, **identity}
    raw = json.dumps({"record_id": "c-5-0-n", "identity": own}).encode()
    digest = sha256(raw).hexdigest()
    return Header(record_id="c-5-0-n", size_bytes=len(raw), sha256=digest, credential="M"), raw


def test_a_credential_is_for_the_very_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The uid of who signed; else what does not match."""
    header, raw = a_record()
    calls: list[tuple[str, str]] = []
    payload = [header.sha256.encode() + b"\n"]

    def signed(credential: str, munge_socket: str) -> tuple[int, bytes]:
        calls.append((credential, munge_socket))
        return 7, payload[0]

    monkeypatch.setattr(receive, "signed_by", signed)
    assert check(header, raw, "/s") == 7
    assert calls == [("M", "/s")]
    with pytest.raises(RecordError, match=r"^c-5-0-n: does not match its sha256$"):
        check(header, raw + b" ", "/s")
    payload[0] = b"else"
    with pytest.raises(RecordError, match=r"^c-5-0-n: the credential is for something else$"):
        check(header, raw, "/s")


@pytest.mark.parametrize(
    ("identity", "uid", "why"),
    [
        ({}, 7, None),
        ({}, 8, "uid 8 may not send another user's record"),
        ({"node": "m"}, 7, "uid 7 may not send another user's record"),
        ({"restart": 1}, 7, "uid 7 may not send another user's record"),
        ({"job_id": 6}, 7, "uid 7 may not send another user's record"),
        ({"cluster": "d"}, 7, "uid 7 may not send another user's record"),
    ],
)
def test_a_user_sends_records_of_their_own_jobs(
    tmp_path: Path, identity: dict[str, Any], uid: int, why: str | None
) -> None:
    """Name, uid, cluster and job all have to fit."""
    known = JobOwners(MemoryClient(known_jobs=(JobInfo(job_id=5, user_id=7),)), tmp_path / "none")
    header, raw = a_record(**identity)
    if why is None:
        check_owner(header, raw, uid, "c", known)
        with pytest.raises(ForeignRecordError, match=r"^c-5-0-n: cluster 'c' is not ours$"):
            check_owner(header, raw, uid, "other", known)
        return
    with pytest.raises(ForeignRecordError) as caught:
        check_owner(header, raw, uid, "c", known)
    assert str(caught.value) == f"c-5-0-n: {why}"


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b'{"record_id":"c-5-0-n","identity":[]}', "ValueError('another name inside')"),
        (b'{"record_id":"other","identity":{}}', "ValueError('another name inside')"),
        (b'{"identity":{}}', "KeyError('record_id')"),
        (b"{}", "KeyError('identity')"),
    ],
)
def test_what_is_no_record_is_named(tmp_path: Path, raw: bytes, why: str) -> None:
    """Whoever sends it."""
    header, _ = a_record()
    with pytest.raises(RecordError) as caught:
        check_owner(header, raw, 7, "c", JobOwners(MemoryClient(), tmp_path))
    assert str(caught.value) == f"c-5-0-n: is not a record: {why}"


def test_names_of_records_are_safe() -> None:
    """Eighty characters of cluster and node; what a file's name may not have becomes _."""
    assert record_id(cluster="a/b", job_id="1", restart="2", node="n.x+y") == "a_b-1-2-n.x+y"
    long = record_id(cluster="c" * 99, job_id="1", restart="0", node="n" * 99)
    assert long == f"{'c' * 80}-1-0-{'n' * 80}"


def test_a_record_lies_in_the_spool(tmp_path: Path) -> None:
    """The folder is made where it is missing."""
    put(tmp_path / "a" / "spool", "x", b"raw")
    put(tmp_path / "a" / "spool", "y", b"more")
    assert (tmp_path / "a" / "spool" / "x.json").read_bytes() == b"raw"


def sent(receiver: Receiver, *pieces: bytes) -> list[dict[str, Any]]:
    """The replies on one connection."""
    with socket.create_connection(("127.0.0.1", receiver.server_address[1]), timeout=10) as client:
        client.sendall(b"".join(pieces))
        client.shutdown(socket.SHUT_WR)
        return [json.loads(line) for line in client.makefile("rb")]


def announced(header: Header, uid: int) -> bytes:
    """The line of a header that `uid` signed."""
    body = {
        "v": 1,
        "kind": "record",
        "record_id": header.record_id,
        "bytes": header.size_bytes,
        "sha256": header.sha256,
        "credential": f"{uid}:{header.sha256}",
    }
    return json.dumps(body).encode() + b"\n"


def test_records_are_taken_from_root_trusted_users_and_owners(receiver: Receiver) -> None:
    """Each is acknowledged by its name, and lies in the spool."""
    header, raw = a_record()
    ack = {"v": 1, "ack": "c-5-0-n"}
    for uid in (0, 7, 9):
        assert sent(receiver, announced(header, uid), raw) == [ack]
        file = receiver.spool / "c-5-0-n.json"
        assert file.read_bytes() == raw
        file.unlink()
    both = announced(header, 0) + raw
    assert sent(receiver, both, both) == [ack, ack]
    receiver.take(Settings(values={"advisor.trusted_uids": [8], "site.cluster": "d"}))
    assert sent(receiver, announced(header, 8), raw) == [ack]
    foreign = {"v": 1, "error": "c-5-0-n: cluster 'c' is not ours", "final": True}
    assert sent(receiver, announced(header, 7), raw) == [foreign]


def test_a_refused_record_ends_the_connection(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """Final only where it will be the same whenever it is sent again."""
    header, raw = a_record()
    foreign = "c-5-0-n: uid 8 may not send another user's record"
    line = announced(header, 8) + raw
    assert sent(receiver, line, line) == [{"v": 1, "error": foreign, "final": True}]
    assert sent(receiver, announced(header, 0), raw[:-1]) == [
        {"v": 1, "error": "c-5-0-n: ended early"}
    ]
    (first, second) = [one.getMessage() for one in caplog.records if "refused" in one.getMessage()]
    assert first.startswith("a record from ('127.0.0.1', ")
    assert first.endswith(f") was refused: {foreign}")
    assert second.endswith("was refused: c-5-0-n: ended early")
    assert not receiver.spool.exists()


def test_places_are_free_again(receiver: Receiver) -> None:
    """As many connections as there are places, one after the other, and once more."""
    header, raw = a_record()
    for _ in range(MOST_CONNECTIONS + 2):
        assert sent(receiver, announced(header, 0), raw)
    taken = [receiver.verify_request() for _ in range(MOST_CONNECTIONS)]
    assert taken[0]
    assert not receiver.verify_request()


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("host", "'host' is not host:port"),
        ("host:", "'host:' is not host:port"),
        (":80", "':80' is not host:port"),
        ("host:x", "'host:x' is not host:port"),
        ("127.0.0.1:99999", "'127.0.0.1:99999': bind(): port must be 0-65535."),
    ],
)
def test_an_address_that_cannot_be_is_named(tmp_path: Path, where: str, why: str) -> None:
    """With the settings' file."""
    values = {"advisor.listen": where, "paths.state_dir": str(tmp_path)}
    with pytest.raises(InputError) as caught:
        start_receiver(Settings(source="s.toml", values=values), MemoryClient())
    assert str(caught.value) == f"s.toml: advisor.listen = {why}"


def test_without_an_address_nothing_is_received() -> None:
    """As by default."""
    assert start_receiver(Settings()) is None
