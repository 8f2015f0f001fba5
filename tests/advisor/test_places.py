"""Places of a server for its connections."""

import io
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from slurm_ext.advisor.places import Places, TimedReader

Pair = Callable[[], tuple[socket.socket, socket.socket]]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Makes a server's connection and its peer's end."""
    with ExitStack() as stack:

        def make() -> tuple[socket.socket, socket.socket]:
            ours, theirs = socket.socketpair()
            return stack.enter_context(ours), stack.enter_context(theirs)

        yield make


def cut(theirs: socket.socket) -> bool:
    """True if the server ended the connection."""
    theirs.setblocking(False)
    try:
        return theirs.recv(1) == b""
    except BlockingIOError:
        return False


def test_the_oldest_silent_connection_of_a_peer_makes_room(pair: Pair) -> None:
    """One that proved itself keeps its place; another peer's are not touched."""
    taken = Places(most=10, of_peer=3)
    (first, first_end), (second, second_end), (third, _) = ends = [pair() for _ in range(3)]
    other, other_end = pair()
    assert all(taken.admit(ours, "a") for ours, _ in ends)
    assert taken.admit(other, "b")
    taken.prove(first)
    assert taken.admit(pair()[0], "a")
    assert [cut(end) for end in (first_end, second_end, other_end)] == [False, True, False]
    taken.leave(second)
    taken.leave(third)
    assert taken.admit(pair()[0], "a")


def test_a_peer_whose_connections_all_proved_themselves_gets_no_more(pair: Pair) -> None:
    """Until one of them ends."""
    taken = Places(most=10, of_peer=1)
    proven = pair()[0]
    assert taken.admit(proven, "a")
    taken.prove(proven)
    assert not taken.admit(pair()[0], "a")
    taken.leave(proven)
    assert taken.admit(pair()[0], "a")


def test_where_all_places_are_taken_the_busiest_silent_peer_gives_one_up(pair: Pair) -> None:
    """A node with one connection is not cut for those of a peer that opens many."""
    taken = Places(most=4, of_peer=3)
    node, node_end = pair()
    assert taken.admit(node, "node")
    crowd = [pair() for _ in range(3)]
    assert all(taken.admit(ours, "crowd") for ours, _ in crowd)
    assert taken.admit(pair()[0], "late")
    assert [cut(end) for end in (node_end, *(end for _, end in crowd))] == [
        False,
        True,
        False,
        False,
    ]
    for ours in (node, *(ours for ours, _ in crowd)):
        taken.prove(ours)


def test_threads_that_have_yet_to_end_are_bounded_too(pair: Pair) -> None:
    """A peer whose cut connections are still being worked on is refused."""
    taken = Places(most=10, of_peer=2)
    admitted = [taken.admit(pair()[0], "a") for _ in range(10)]
    assert admitted == [True] * 8 + [False] * 2
    assert taken.admit(pair()[0], "b")


def test_dripping_bytes_do_not_buy_time(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is for all that is read, not for each byte."""
    clock = [0.0]
    monkeypatch.setattr("slurm_ext.advisor.places.time.monotonic", lambda: clock[0])
    ours, theirs = pair()
    timed = TimedReader(ours)
    stream = io.BufferedReader(timed)
    timed.allow(10.0)
    theirs.sendall(b"whole\nhal")
    assert stream.readline() == b"whole\n"
    clock[0] = 9.9
    theirs.sendall(b"f")
    theirs.shutdown(socket.SHUT_WR)
    assert stream.read(4) == b"half"
    clock[0] = 10.0
    with pytest.raises(TimeoutError, match="was too slow"):
        stream.readline()
    timed.allow(1.0)
    assert stream.readline() == b""
