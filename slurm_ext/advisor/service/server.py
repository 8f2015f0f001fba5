"""One thread, many persistent connections, one JSON line each way. Never crashes over a line.

A client is trusted (its submissions count) or not (it may only ask, and not too often). Trusted
ones are answered first, because slurmctld waits with its locks held.
"""

import gc
import logging
import os
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from slurm_ext.advisor.service.unix_socket import peer_uid
from slurm_ext.core.wire import MAX_LINE_BYTES

MOST_CLIENTS = 64  # of each kind; the one silent for longest makes room
ASKS_PER_S, ASKS_AT_ONCE = 10.0, 20.0  # of one untrusted user
MOST_ASKERS = 1024  # users whose allowances are kept before the idle ones are forgotten
_READ_BYTES = 256 * 1024
_IDLE_S = 1.0
log = logging.getLogger(__name__)

Answering = Callable[[bytes, bool], tuple[bytes, bool]]
"""Line and whether its sender is trusted → the reply's line and whether the connection stays."""


@dataclass(slots=True, eq=False)
class Client:
    """One connection and what it sent so far."""

    sock: socket.socket
    uid: int
    trusted: bool
    seen_s: float
    buffer: bytearray = field(default_factory=bytearray)


class Server:
    """The loop over a listening socket; `stop_from` is readable when something else wants it."""

    def __init__(
        self,
        listening: socket.socket,
        answering: Answering,
        trusted_uids: Callable[[], frozenset[int]],
        refuse: Callable[[str], bytes],
    ) -> None:
        self._listening, self._answering, self._refuse = listening, answering, refuse
        self._trusted_uids = trusted_uids
        self._clients: set[Client] = set()
        self._asks: dict[int, tuple[float, float]] = {}  # uid → (allowance, when)
        self._selector = selectors.DefaultSelector()
        self._selector.register(listening, selectors.EVENT_READ, None)

    def run(self, signals: int, on_signal: Callable[[bytes], bool]) -> None:
        """Serve until `on_signal`, given what came out of `signals`, says to stop (False)."""
        self._selector.register(signals, selectors.EVENT_READ, None)
        while True:
            ready = [key for key, _ in self._selector.select(_IDLE_S)]
            clients = [key.data for key in ready if key.data is not None]
            for client in sorted(clients, key=lambda c: not c.trusted):
                if client in self._clients:
                    self._serve(client)
            others = [key.fileobj for key in ready if key.data is None]
            if self._listening in others:
                self._accept()
            if signals in others and not on_signal(os.read(signals, 64)):
                break
            if not ready:
                gc.collect(1)  # automatic collection is off while slurmctld may wait
        self._close_all()

    def _accept(self) -> None:
        try:
            sock, _ = self._listening.accept()
        except OSError as error:  # it went away, or no file descriptor is left
            log.warning("accept: %s", error)
            time.sleep(0.01)
            return
        sock.setblocking(False)
        uid = peer_uid(sock)
        client = Client(sock, uid, uid in self._trusted_uids(), time.monotonic())
        self._make_room(client.trusted)
        self._clients.add(client)
        self._selector.register(sock, selectors.EVENT_READ, client)

    def _make_room(self, trusted: bool) -> None:
        kind = [client for client in self._clients if client.trusted == trusted]
        if len(kind) >= MOST_CLIENTS:
            self._close(min(kind, key=lambda client: client.seen_s))

    def _serve(self, client: Client) -> None:
        """Read once and answer every whole line; closes on end, error and excess."""
        try:
            data = client.sock.recv(_READ_BYTES)
            stays = bool(data) and self._take(client, data)
        except OSError:
            stays = False  # reset, or it does not read its replies
        if not stays:
            self._close(client)

    def _take(self, client: Client, data: bytes) -> bool:
        client.seen_s = time.monotonic()
        client.buffer += data
        if b"\n" in data:
            *lines, rest = bytes(client.buffer).split(b"\n")
            client.buffer = bytearray(rest)
            for line in lines:
                reply, stays = self._reply(client, line)
                client.sock.sendall(reply)
                if not stays:
                    return False
        if len(client.buffer) > MAX_LINE_BYTES:
            client.sock.sendall(self._refuse(f"a line is at most {MAX_LINE_BYTES} bytes"))
            return False
        return True

    def _reply(self, client: Client, line: bytes) -> tuple[bytes, bool]:
        if len(line) > MAX_LINE_BYTES:
            return self._refuse(f"a line is at most {MAX_LINE_BYTES} bytes"), False
        if not client.trusted and not self._may_ask(client.uid):
            return self._refuse("too many questions; ask again in a second"), False
        try:
            return self._answering(line, client.trusted)
        except Exception:  # a fault of ours must cost one answer, never the service
            log.exception("no answer to a line of %d bytes", len(line))
            return self._refuse("the advisor has a fault; its log says which"), False

    def _may_ask(self, uid: int) -> bool:
        """A token bucket for each untrusted user; full buckets are not kept."""
        now = time.monotonic()
        if len(self._asks) >= MOST_ASKERS:
            filled_s = now - ASKS_AT_ONCE / ASKS_PER_S
            self._asks = {uid: ask for uid, ask in self._asks.items() if ask[1] > filled_s}
        left, since = self._asks.get(uid, (ASKS_AT_ONCE, now))
        left = min(ASKS_AT_ONCE, left + (now - since) * ASKS_PER_S)
        if left < 1:
            return False
        self._asks[uid] = (left - 1, now)
        return True

    def _close(self, client: Client) -> None:
        self._clients.discard(client)
        self._selector.unregister(client.sock)
        client.sock.close()

    def _close_all(self) -> None:
        for client in list(self._clients):
            self._close(client)
        self._selector.close()
