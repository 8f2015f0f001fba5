"""Records on their way: a folder or a stream, stored until they are safe on the other side."""

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.node.common import log, state
from slurm_ext.node.hooks import prolog
from slurm_ext.node.transport import deliver, housekeeping
from slurm_ext.node.transport import worker as transport_worker
from slurm_ext.node.transport.deliver import UndeliveredError, open_channel
from tests.node.by_hand import Node, wait_for

V1 = Path(__file__).parents[2] / "golden" / "spool" / "v1.json"
Answer = Callable[[dict[str, Any], bytes], bytes]


class Advisor:
    """The other end of a stream: takes records and answers as it is told to."""

    def __init__(self, answer: Answer) -> None:
        self.answer, self.got = answer, list[tuple[dict[str, Any], bytes]]()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as stream:
                self._serve(connection, stream)

    def _serve(self, connection: socket.socket, stream: Any) -> None:
        while line := stream.readline():
            header = json.loads(line)
            record = stream.read(header["bytes"])
            self.got.append((header, record))
            said = self.answer(header, record)
            connection.sendall(said)
            if b"ack" not in said:
                return


def _acknowledge(header: dict[str, Any], record: bytes) -> bytes:
    return json.dumps({"v": 1, "ack": header["record_id"]}).encode() + b"\n"


@pytest.fixture
def make_advisor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], Advisor]]:
    """Advisors; munge is tried with the real one in tests/slurm."""
    monkeypatch.setattr(deliver, "credential", lambda text, _: f"signed {text}")
    made: list[Advisor] = []

    def make(answer: Answer) -> Advisor:
        made.append(Advisor(answer))
        return made[-1]

    yield make
    for advisor in made:
        advisor.listener.close()


def _put(node: Node, *names: str) -> None:
    node.spool.prepare()
    for name in names:
        Path(node.spool.out_file(name)).write_text(V1.read_text())


def test_a_stream_is_signed_and_removed_once_acknowledged(
    make_node: Callable[..., Node], make_advisor: Callable[[Answer], Advisor]
) -> None:
    """Header, bytes, digest and credential fit; own copies go after the acknowledgement."""
    advisor = make_advisor(_acknowledge)
    node = make_node(**{"node.transport": "stream", "node.address": advisor.address})
    _put(node, "a", "b")
    transport_worker.deliver_records(node.config)
    assert node.waiting() == []
    assert [header["record_id"] for header, _ in advisor.got] == ["a", "b"]
    for header, record in advisor.got:
        assert record == V1.read_bytes()
        assert header["sha256"] == sha256(record).hexdigest()
        assert header["credential"] == f"signed {header['sha256']}"
        assert (header["v"], header["kind"]) == (1, "record")


@pytest.mark.parametrize(
    "said",
    [b"", b"garbage\n", b"[]\n", b'{"v":1,"ack":"other"}\n', b'{"v":2,"ack":"a"}\n', b"x" * 9000],
)
def test_a_record_without_acknowledgement_stays(
    make_node: Callable[..., Node], make_advisor: Callable[[Answer], Advisor], said: bytes
) -> None:
    """Half an answer, another's, another version's: keep the record."""
    advisor = make_advisor(lambda *_: said)
    node = make_node(**{"node.transport": "stream", "node.address": advisor.address})
    _put(node, "a")
    with pytest.raises(UndeliveredError), open_channel(node.config) as send:
        send(node.spool.out_file("a"))
    assert node.waiting() == ["a.json"]


def test_a_refused_record_holds_up_no_other(
    make_node: Callable[..., Node],
    make_advisor: Callable[[Answer], Advisor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The advisor refuses one: it is kept and reported, those behind it pass."""

    def answer(header: dict[str, Any], record: bytes) -> bytes:
        if header["record_id"] == "a":
            return b'{"v":1,"error":"not yours"}\n'
        return _acknowledge(header, record)

    advisor = make_advisor(answer)
    node = make_node(**{"node.transport": "stream", "node.address": advisor.address})
    _put(node, "a", "b", "c")
    monkeypatch.setattr(log, "folder", node.spool.root)
    transport_worker.deliver_records(node.config, life_s=0.1)
    assert node.waiting() == ["a.json"]
    assert "not yours" in (node.root / "spool/hooks.log").read_text()


def test_a_record_refused_for_good_is_not_sent_again(
    make_node: Callable[..., Node],
    make_advisor: Callable[[Answer], Advisor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is put aside and reported, nothing is left to deliver, and the size stays bounded."""
    advisor = make_advisor(lambda *_: b'{"v":1,"error":"not yours","final":true}\n')
    node = make_node(**{"node.transport": "stream", "node.address": advisor.address})
    _put(node, "a")
    monkeypatch.setattr(log, "folder", node.spool.root)
    out = Path(node.spool.out)
    transport_worker.deliver_records(node.config, life_s=0.5)
    assert [path.name for path in out.iterdir()] == ["a.json.refused"]
    assert "not yours" in (node.root / "spool/hooks.log").read_text()
    housekeeping.keep_within(node.spool, 0)
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("address", ["", "nowhere", "127.0.0.1:1", "127.0.0.1:999999", "[::1]:x"])
def test_an_advisor_that_is_not_there_is_tried_again_later(
    make_node: Callable[..., Node], address: str
) -> None:
    """No address or nobody listening: the record stays and the worker ends in time."""
    node = make_node(**{"node.transport": "stream", "node.address": address})
    _put(node, "a")
    transport_worker.deliver_records(node.config, life_s=0.2)
    assert node.waiting() == ["a.json"]


def test_a_folder_that_is_not_mounted_is_not_made(node: Node) -> None:
    """The record waits, and is delivered when the folder is there."""
    node.folder.rmdir()
    _put(node, "a")
    transport_worker.deliver_records(node.config, life_s=0.2)
    assert node.waiting() == ["a.json"]
    assert not node.folder.exists()
    node.folder.mkdir()
    node.ship()
    assert [path.name for path in node.arrived()] == ["a.json"]


def test_a_folder_that_is_a_link_takes_records_once(node: Node) -> None:
    """Each is there and gone from the node, as where the folder is named itself."""
    node.folder.rename(node.root / "shared")
    node.folder.symlink_to(node.root / "shared")
    _put(node, "a")
    transport_worker.deliver_records(node.config, life_s=0.2)
    assert node.waiting() == []
    assert [path.name for path in (node.root / "shared").iterdir()] == ["a.json"]


def test_a_record_delivered_twice_is_one_file(node: Node) -> None:
    """A worker killed between delivery and removal repeats itself under the same name."""
    _put(node, "a")
    with open_channel(node.config) as send:
        send(node.spool.out_file("a"))
    node.ship()
    assert [path.name for path in node.folder.iterdir()] == ["a.json"]
    assert node.waiting() == []


def test_one_worker_a_node(node: Node) -> None:
    """While one works, another ends at once; a record that came meanwhile is not left lying."""
    node.folder.rmdir()
    _put(node, "a")
    first = threading.Thread(target=transport_worker.deliver_records, args=(node.config, 20.0))
    first.start()
    lock = node.root / "spool/ship.lock"
    wait_for(lambda: lock.exists() and lock.read_bytes())
    transport_worker.deliver_records(node.config)
    assert node.waiting() == ["a.json"]
    _put(node, "b")
    node.folder.mkdir()
    first.join(20)
    assert [path.name for path in node.arrived()] == ["a.json", "b.json"]


def test_the_spool_is_bounded_and_says_what_it_dropped(node: Node) -> None:
    """Time lines of the oldest go first, then whole records; both are counted."""
    names = [f"r{n}" for n in range(6)]
    _put(node, *names)
    for age, name in enumerate(reversed(names)):
        os.utime(node.spool.out_file(name), (1000 - age, 1000 - age))
    full = V1.stat().st_size
    bare = len(json.dumps({**json.loads(V1.read_text()), "timeline": None}, separators=(",", ":")))
    housekeeping.keep_within(node.spool, 6 * full - 1)
    sizes = [Path(node.spool.out_file(name)).stat().st_size for name in names]
    assert sizes == [bare, *[full] * 5]
    housekeeping.keep_within(node.spool, 2 * bare)
    assert node.waiting() == ["r4.json", "r5.json"]
    dropped = json.loads((node.root / "spool/dropped").read_text())
    assert dropped == {"timelines": 6, "records": 4}


def test_old_leftovers_go_and_young_ones_stay(node: Node) -> None:
    """Torn temporary files, forgotten markers and run folders without a job are swept by age."""
    node.spool.prepare()
    old = [
        Path(node.spool.state, "1.0.done"),
        Path(node.spool.state, "2.0.lock"),
        Path(node.spool.state, ".3.0.json.99.tmp"),
        Path(node.spool.out, ".x.json.99.tmp"),
    ]
    young = Path(node.spool.state, "4.0.done")
    for path in (*old, young):
        path.touch()
    folders = [Path(node.spool.run, name) for name in ("5.0", "6.0")]
    for folder in folders:
        folder.mkdir()
    for path in (*old, folders[0]):
        os.utime(path, (1, 1))
    node.ship()
    assert not any(path.exists() for path in (*old, folders[0]))
    assert young.exists()
    assert folders[1].exists()


def test_a_job_that_ended_while_the_worker_was_at_it_is_not_forgotten(node: Node) -> None:
    """The worker stays until every ended job has its record, whoever was making it."""
    node.spool.prepare()
    first = prolog.first_state(node.config, node.env(90))
    end = {**first, "status": 0, "ended_s": 1.0, "uptime_s": state.uptime_s()}
    state.save(node.spool, "90.0", "json", first, durable=False)
    state.save(node.spool, "90.0", "end", end, durable=False)
    busy = state.lock(node.spool.state_file("90.0", "lock"))  # an epilog that is going to die
    worker = threading.Thread(target=transport_worker.deliver_records, args=(node.config, 20.0))
    worker.start()
    lock = node.root / "spool/ship.lock"
    wait_for(lambda: lock.exists() and lock.stat().st_size)  # who opens a lock loses it
    transport_worker.deliver_records(
        node.config
    )  # the next hook's worker finds one at work and ends
    assert busy is not None
    with busy:
        pass
    worker.join(20)
    assert [path.name for path in node.arrived()] == ["c-90-0-n1.json"]
