"""Places of a server for its connections: bounded, by peer too, and no silent one keeps its own.

Whoever can reach a port can open connections and say nothing. A thread waits behind each, so there
are few of them; where all are taken, the oldest that proved nothing is cut for the newcomer.
"""

import io
import socket
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

CUT_TOO = 4  # so many times the bound, with those that were cut and whose thread has yet to end


@dataclass(slots=True)
class Place:
    """One connection."""

    peer: str
    proven: bool = False
    cut: bool = False


class Places:
    """Open connections of one server; every method may be called by any thread."""

    def __init__(self, *, most: int, of_peer: int) -> None:
        self._most, self._of_peer = most, of_peer
        self._lock = threading.Lock()
        self._open: dict[socket.socket, Place] = {}  # oldest first

    def admit(self, connection: socket.socket, peer: str) -> bool:
        """True if there is a place, or another connection was cut for this one."""
        with self._lock:
            of_peer = [place for place in self._open.values() if place.peer == peer]
            if max(len(self._open) / self._most, len(of_peer) / self._of_peer) >= CUT_TOO:
                return False
            there = Counter(place.peer for place in self._open.values() if not place.cut)
            crowded = self._crowded(there, peer)
            if crowded is not None and not self._cut_one(crowded):
                return False
            self._open[connection] = Place(peer)
            return True

    def prove(self, connection: socket.socket) -> None:
        """Keep the place: the peer is one whose word counts."""
        with self._lock:
            if connection in self._open:
                self._open[connection].proven = True

    def leave(self, connection: socket.socket) -> None:
        """Free the place."""
        with self._lock:
            self._open.pop(connection, None)

    def _crowded(self, there: Counter[str], peer: str) -> str | None:
        """The peer that has to give a place up; None where nobody has to."""
        if there[peer] >= self._of_peer:
            return peer
        if there.total() < self._most:
            return None
        silent = Counter(p.peer for p in self._open.values() if not (p.cut or p.proven))
        return max(silent, key=lambda node: there[node], default=peer)

    def _cut_one(self, peer: str) -> bool:
        """End the peer's oldest connection that proved nothing; False where it has none."""
        for connection, place in self._open.items():
            if place.peer == peer and not (place.cut or place.proven):
                place.cut = True
                with suppress(OSError):  # it has gone by itself
                    connection.shutdown(socket.SHUT_RDWR)
                return True
        return False


class TimedReader(io.RawIOBase):
    """Reads from a socket until a moment, however slowly the bytes drip."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self._connection = connection
        self._until_s = 0.0

    def allow(self, seconds: float) -> None:
        """Let everything that is read from now on take so long in all."""
        self._until_s = time.monotonic() + seconds

    def readable(self) -> bool:
        """True, for BufferedReader."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Read what is there. Raises TimeoutError once the time is up."""
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("was too slow")
        self._connection.settimeout(left_s)
        return self._connection.recv_into(buffer)
