"""Records over the stream: who may send which, and every reply."""

import json
import socket
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.advisor import stream_server
from slurm_ext.advisor.history_writer.receive import (
    MOST_CONNECTIONS,
    Receiver,
    parse_record,
    start_receiver,
)
from slurm_ext.advisor.history_writer.slurm_record import put, record_id
from slurm_ext.advisor.stream_header import Header
from slurm_ext.core.errors import (
    InputError,
    RecordError,
)
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm import MemoryClient


def a_record(**identity: Any) -> tuple[Header, bytes]:
    """A record of uid 7's job on our cluster, and its header."""
    own = {"cluster": "c", "job_id": 5, "restart": 0, "node": "n", "uid": 7, **identity}
    raw = json.dumps({"record_id": "c-5-0-n", "identity": own}).encode()
    digest = sha256(raw).hexdigest()
    return Header(name="c-5-0-n", size_bytes=len(raw), sha256=digest, credential="M"), raw


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b'{"record_id":"c-5-0-n","identity":[]}', "ValueError('another name inside')"),
        (b'{"record_id":"other","identity":{}}', "ValueError('another name inside')"),
        (b'{"identity":{}}', "KeyError('record_id')"),
        (b"{}", "KeyError('identity')"),
        (
            b'{"record_id":"c-5-0-n","identity":{"cluster":"c","job_id":6,"restart":0,"node":"n"}}',
            """ValueError("not the name of its job's record")""",
        ),
    ],
)
def test_what_is_no_record_is_named(raw: bytes, why: str) -> None:
    """Whoever sends it; nobody can stand in another record's way."""
    header, _ = a_record()
    with pytest.raises(RecordError) as caught:
        parse_record(header, raw)
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
        "record_id": header.name,
        "bytes": header.size_bytes,
        "sha256": header.sha256,
        "credential": f"{uid}:{header.sha256}",
    }
    return json.dumps(body).encode() + b"\n"


def test_records_are_taken_from_root_and_trusted_users(receiver: Receiver) -> None:
    """Each is acknowledged by its name, and lies in the spool."""
    header, raw = a_record()
    ack = {"v": 1, "ack": "c-5-0-n"}
    for uid in (0, 9):
        assert sent(receiver, announced(header, uid), raw) == [ack]
        file = receiver.spool / "c-5-0-n.json"
        assert file.read_bytes() == raw
        file.unlink()
    both = announced(header, 0) + raw
    assert sent(receiver, both, both) == [ack, ack]


def test_nobody_else_is_believed(receiver: Receiver) -> None:
    """The job's own user neither, as long as the site does not say so; settings may change."""
    header, raw = a_record()
    refused = {"v": 1, "error": "c-5-0-n: uid 7 is not in advisor.trusted_uids"}
    assert sent(receiver, announced(header, 7)) == [refused]  # before the record was sent
    assert sent(receiver, announced(header, 7), raw) == [refused]
    assert not receiver.spool.exists()
    receiver.take(Settings(values={"advisor.trusted_uids": [7], "site.cluster": "c"}))
    assert sent(receiver, announced(header, 7), raw) == [{"v": 1, "ack": "c-5-0-n"}]


def test_a_record_of_another_cluster_waits_on_its_node(receiver: Receiver) -> None:
    """Even root's; not refused for good, because the advisor's setting may be the wrong one."""
    header, raw = a_record()
    receiver.take(Settings(values={"advisor.trusted_uids": [9], "site.cluster": "d"}))
    foreign = {"v": 1, "error": "c-5-0-n: cluster 'c' is not ours, 'd'"}
    assert sent(receiver, announced(header, 0), raw) == [foreign]


def test_a_refused_record_ends_the_connection(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has a line for the first and counts the others."""
    header, raw = a_record()
    line = announced(header, 8) + raw
    foreign = "c-5-0-n: uid 8 is not in advisor.trusted_uids"
    assert sent(receiver, line, line) == [{"v": 1, "error": foreign}]
    assert sent(receiver, announced(header, 0), raw[:-1]) == [
        {"v": 1, "error": "c-5-0-n: ended early"}
    ]
    assert sent(receiver, announced(header, 0), raw[:-1] + b" ") == [
        {"v": 1, "error": "c-5-0-n: does not match its sha256"}
    ]
    receiver._reported_s -= stream_server.REPORT_EVERY_S
    assert sent(receiver, b"x\n")
    (first, second) = [one.getMessage() for one in caplog.records if "refused" in one.getMessage()]
    assert first.startswith("a record from ('127.0.0.1', ")
    assert first.endswith(f") was refused: {foreign}")
    assert second.endswith(" (3 since the last line)")
    assert not receiver.spool.exists()


def test_places_are_free_again(receiver: Receiver) -> None:
    """As many connections as there are places, one after the other, and once more."""
    header, raw = a_record()
    for _ in range(MOST_CONNECTIONS + 2):
        assert sent(receiver, announced(header, 0), raw)
    assert not receiver.places._open


def test_silent_connections_stop_no_delivery(receiver: Receiver) -> None:
    """As many as there are places, from one address, and a node's record is taken at once."""
    header, raw = a_record()
    address = ("127.0.0.1", receiver.server_address[1])
    silent = [socket.create_connection(address) for _ in range(MOST_CONNECTIONS)]
    silent[-1].sendall(b'{"v":1,')
    assert sent(receiver, announced(header, 0), raw) == [{"v": 1, "ack": "c-5-0-n"}]
    for client in silent:
        client.close()


def test_a_header_has_to_be_whole_in_time(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a header is answered by the end."""
    monkeypatch.setattr(stream_server, "HEADER_S", 0.05)
    with socket.create_connection(("127.0.0.1", receiver.server_address[1]), timeout=10) as client:
        client.sendall(b'{"v":1,')
        assert "error" in json.loads(client.makefile("rb").readline())


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
