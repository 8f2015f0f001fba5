"""The advisor's socket and its clients: limits and refusals."""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_ext.advisor.service.advisor import refusal
from slurm_ext.advisor.service.server import MOST_CLIENTS, Client, Server
from slurm_ext.advisor.service.unix_socket import fits, listener, peer_uid, remove
from slurm_ext.core.errors import AdvisorError
from slurm_ext.core.wire import MAX_LINE_BYTES


def test_a_socket_has_its_mode_and_is_removed_once(tmp_path: Path) -> None:
    """A stale one is replaced; one that another made is left."""
    path = tmp_path / "run" / "a.sock"
    with listener(path, 0o640) as first:
        made = path.lstat()
        assert made.st_mode & 0o777 == 0o640
        assert not first.getblocking()
        assert [one.name for one in path.parent.iterdir()] == ["a.sock"]
        with pytest.raises(AdvisorError) as caught:
            listener(path, 0o640)
        assert str(caught.value) == f"an advisor already answers at {path}; stop it first"
    with listener(path, 0o666):
        assert path.lstat().st_mode & 0o777 == 0o666
        remove(path, made)
        assert path.exists()
        remove(path, path.lstat())
        assert not path.exists()
        remove(path, made)


def test_what_is_in_the_sockets_way_is_named(tmp_path: Path) -> None:
    """A file, a link, a folder that cannot be."""
    path = tmp_path / "a"
    path.touch()
    why = f"{path} is in the way and is not a socket; see paths.socket"
    with pytest.raises(AdvisorError) as caught:
        listener(path, 0o600)
    assert str(caught.value) == why
    with pytest.raises(AdvisorError) as caught:
        listener(path / "b", 0o600)
    assert str(caught.value) in (
        f"{path / 'b'} cannot be made: File exists",
        f"{path / 'b'} cannot be made: Not a directory",
    )
    path.unlink()
    path.symlink_to("nowhere")
    with pytest.raises(AdvisorError) as caught:
        listener(path, 0o600)
    assert str(caught.value) == why


def test_a_path_fits_where_its_hidden_name_does(tmp_path: Path) -> None:
    """The socket is made under another name first, a few bytes longer."""
    room = 107 - len(f"{tmp_path}/..{os.getpid()}")
    assert fits(tmp_path / ("x" * room))
    assert not fits(tmp_path / ("x" * (room + 1)))
    listener(tmp_path / ("x" * room), 0o600).close()


def test_the_kernel_vouches_for_the_peer() -> None:
    """The uid, not the process or the group."""
    one, other = socket.socketpair()
    with one, other:
        assert peer_uid(one) == os.getuid()


class Rig:
    """A server over a pair of sockets, with a list of the lines that were answered."""

    def __init__(self, tmp_path: Path) -> None:
        self.listening = listener(tmp_path / "a.sock", 0o600)
        self.lines: list[tuple[bytes, int]] = []
        self.admits = True
        self.stays = True
        self.ours: list[socket.socket] = []
        self.server = Server([self.listening], self.answer, refusal, lambda *_: self.admits)

    def answer(self, line: bytes, uid: int) -> tuple[bytes, bool]:
        """Say it again."""
        line = line.rstrip(b"\n")
        self.lines.append((line, uid))
        if line == b"fault":
            raise ZeroDivisionError
        return line + b"!\n", self.stays

    def client(self, uid: int = 5) -> tuple[Client, socket.socket]:
        """The server's end and ours."""
        one, other = socket.socketpair()
        other.settimeout(5.0)
        self.ours.append(other)
        client = Client(one, uid, 0.0)
        self.server._clients.add(client)
        self.server._selector.register(one, 1, client)
        return client, other


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A server that answers nobody by itself."""
    made = Rig(tmp_path)
    yield made
    made.server._close_all()
    for one in (made.listening, *made.ours):
        one.close()


def test_lines_are_answered_in_whole_and_in_order(rig: Rig) -> None:
    """A part of one waits for its rest."""
    client, ours = rig.client()
    ours.sendall(b"a\nb\nc")
    rig.server._serve(client)
    assert ours.recv(99) == b"a!\nb!\n"
    assert bytes(client.buffer) == b"c"
    assert client.seen_s > 0
    ours.sendall(b"d\n")
    rig.server._serve(client)
    assert ours.recv(99) == b"cd!\n"
    assert rig.lines == [(b"a", 5), (b"b", 5), (b"cd", 5)]
    ours.close()
    rig.server._serve(client)
    assert client not in rig.server._clients
    assert client.sock.fileno() == -1


def test_a_refused_line_ends_the_connection(rig: Rig) -> None:
    """What follows it is not answered."""
    client, ours = rig.client()
    rig.stays = False
    ours.sendall(b"a\nb\n")
    rig.server._serve(client)
    assert ours.recv(99) == b"a!\n"
    assert ours.recv(99) == b""
    assert rig.lines == [(b"a", 5)]


def test_a_fault_of_ours_costs_one_answer(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """With the trace in the log."""
    client, ours = rig.client()
    ours.sendall(b"fault\n")
    rig.server._serve(client)
    assert json.loads(ours.recv(999))["error"] == "the advisor has a fault; its log says which"
    assert caplog.messages == ["no answer to a line of 6 bytes"]
    assert caplog.records[0].exc_info
    assert client not in rig.server._clients


def test_a_line_that_is_too_long_is_refused(rig: Rig) -> None:
    """Whole or in parts; the longest that may be is not."""
    why = f"a line is at most {MAX_LINE_BYTES} bytes"
    client, ours = rig.client()
    assert rig.server._take(client, b"x" * MAX_LINE_BYTES)
    client.buffer.clear()
    assert not rig.server._take(client, b"x" * (MAX_LINE_BYTES + 1))
    assert json.loads(ours.recv(9999))["error"] == why
    reply, stays = rig.server._reply(client, b"x" * (MAX_LINE_BYTES + 1))
    assert (json.loads(reply)["error"], stays) == (why, False)
    assert rig.server._reply(client, b"x" * MAX_LINE_BYTES)[1]


def test_the_longest_silent_makes_room(rig: Rig) -> None:
    """As soon as there are as many as may be."""
    clients = [rig.client()[0] for _ in range(MOST_CLIENTS - 1)]
    for number, client in enumerate(clients):
        client.seen_s = 1000.0 - number
    rig.server._make_room()
    assert len(rig.server._clients) == len(clients)
    more, _ = rig.client()
    more.seen_s = 2000.0
    rig.server._make_room()
    assert set(clients) - rig.server._clients == {clients[-1]}


def test_a_newcomer_makes_room_before_it_is_counted(rig: Rig, tmp_path: Path) -> None:
    """And one that is not admitted takes nobody's place."""
    ours = [rig.client()[0] for _ in range(MOST_CLIENTS)]
    for number, client in enumerate(ours):
        client.seen_s = 1.0 + number
    with socket.socket(socket.AF_UNIX) as stranger, socket.socket(socket.AF_UNIX) as newcomer:
        stranger.connect(str(tmp_path / "a.sock"))
        rig.admits = False
        assert rig.server._accept(rig.listening)
        assert rig.server._clients == set(ours)
        stranger.settimeout(5.0)
        assert stranger.recv(1) == b""
        newcomer.connect(str(tmp_path / "a.sock"))
        rig.admits = True
        assert rig.server._accept(rig.listening)
        assert set(ours) - rig.server._clients == {ours[0]}
        assert len(rig.server._clients) == MOST_CLIENTS


def test_clients_that_have_said_nothing_yet_make_room_too(rig: Rig, tmp_path: Path) -> None:
    """A newcomer counts as heard when it was accepted: the first of the silent ones goes."""
    ours = [rig.client()[0] for _ in range(MOST_CLIENTS - 1)]
    for client in ours:
        client.seen_s = float("inf")
    with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
        for newcomer in (first, second):
            newcomer.connect(str(tmp_path / "a.sock"))
            rig.server._accept(rig.listening)
        first.settimeout(5.0)
        assert first.recv(1) == b""
        assert set(ours) < rig.server._clients
        assert len(rig.server._clients) == MOST_CLIENTS


def test_a_client_that_does_not_read_its_replies_is_closed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for it."""
    client, ours = rig.client()
    ours.sendall(b"a\n")

    def full(_client: Client, _line: bytes) -> tuple[bytes, bool]:
        raise BlockingIOError

    monkeypatch.setattr(rig.server, "_reply", full)
    rig.server._serve(client)
    assert client not in rig.server._clients


def test_a_server_serves_until_a_signal_says_so(rig: Rig, tmp_path: Path) -> None:
    """Clients are accepted with the kernel's word for them; all are closed at the end."""
    read, write = os.pipe()
    signals: list[bytes] = []

    def on_signal(raw: bytes) -> bool:
        signals.append(raw)
        return False

    with socket.socket(socket.AF_UNIX) as ours:
        ours.settimeout(5.0)
        ours.connect(str(tmp_path / "a.sock"))
        ours.sendall(b"hello\n")
        rig.server._accept(rig.listening)
        (client,) = rig.server._clients
        assert client.uid == os.getuid()
        os.write(write, b"\x0f")
        rig.server.run(read, on_signal)
        assert ours.recv(99) == b"hello!\n"
        assert ours.recv(99) == b""
    assert signals == [b"\x0f"]
    assert rig.server._clients == set()
    os.close(read)
    os.close(write)
    rig.server = Server([rig.listening], rig.answer, refusal)


def test_who_waits_no_longer_is_not_answered(rig: Rig) -> None:
    """What nobody hears would stand in the ledger as if its job had been changed."""
    client, ours = rig.client()
    ours.sendall(b"late\n")
    ours.close()
    rig.server._serve(client)
    assert rig.lines == []
    assert client not in rig.server._clients


def test_who_only_sends_no_more_is_answered(rig: Rig) -> None:
    """As `nc -N` does: half a connection is left, and read."""
    client, ours = rig.client()
    ours.sendall(b"last\n")
    ours.shutdown(socket.SHUT_WR)
    rig.server._serve(client)
    assert ours.recv(99) == b"last!\n"
