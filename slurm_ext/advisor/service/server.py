"""One thread, many persistent connections, requests in and lines out. Never crashes over a line."""

import gc
import logging
import os
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from slurm_ext.advisor.service.unix_socket import hung_up, peer_uid
from slurm_ext.core.wire import MAX_LINE_BYTES, request_size

MOST_CLIENTS = 64  # the one silent for longest makes room
_READ_BYTES = 256 * 1024
_IDLE_S = 1.0
log = logging.getLogger(__name__)

Answering = Callable[[bytes, int], tuple[bytes, bool]]
"""Request and its sender's uid → the reply's line and whether the connection stays."""
Admitting = Callable[[socket.socket, int], bool]
"""Connection and its uid → True if this server serves it, else it is closed here."""


@dataclass(slots=True, eq=False)
class Client:
    """One connection and what it sent so far."""

    sock: socket.socket
    uid: int
    seen_s: float
    buffer: bytearray = field(default_factory=bytearray)


class Server:
    """The loop over sockets that connections come from; the first is looked at first."""

    most_bytes = MAX_LINE_BYTES  # of a request

    def __init__(
        self,
        sources: Sequence[socket.socket],
        answering: Answering,
        refuse: Callable[[str], bytes],
        admitting: Admitting = lambda *_: True,
    ) -> None:
        self._sources, self._answering, self._refuse = sources, answering, refuse
        self._admitting = admitting
        self._clients: set[Client] = set()
        self._selector = selectors.DefaultSelector()
        for source in sources:
            self._selector.register(source, selectors.EVENT_READ, None)

    def run(self, signals: int, on_signal: Callable[[bytes], bool]) -> None:
        """Serve until `on_signal`, given what came out of `signals`, says to stop (False)."""
        self._selector.register(signals, selectors.EVENT_READ, None)
        goes_on = True
        while goes_on:
            ready = [key for key, _ in self._selector.select(_IDLE_S)]
            for client in [key.data for key in ready if key.data is not None]:
                if client in self._clients:
                    self._serve(client)
            others = [key.fileobj for key in ready if key.data is None]
            for source in self._sources:
                goes_on = goes_on and (source not in others or self._accept(source))
            if signals in others:
                goes_on = on_signal(os.read(signals, 64)) and goes_on
            if not ready:
                gc.collect(1)  # automatic collection is off while slurmctld may wait
        self._close_all()

    def _accept(self, source: socket.socket) -> bool:
        """Take one connection; False where no more will come."""
        try:
            sock, _ = source.accept()
        except OSError as error:  # it went away, or no file descriptor is left
            log.warning("accept: %s", error)
            time.sleep(0.01)
            return True
        self._welcome(sock)
        return True

    def _welcome(self, sock: socket.socket) -> None:
        """Serve a connection from now on, if it is one of ours."""
        sock.setblocking(False)
        uid = peer_uid(sock)
        if not self._admitting(sock, uid):
            sock.close()
            return
        self._make_room()
        client = Client(sock, uid, time.monotonic())
        self._clients.add(client)
        self._selector.register(sock, selectors.EVENT_READ, client)

    def _make_room(self) -> None:
        if len(self._clients) >= MOST_CLIENTS:
            self._close(min(self._clients, key=lambda client: client.seen_s))

    def _serve(self, client: Client) -> None:
        """Read once and answer every whole request; closes on end, error and excess."""
        try:
            data = client.sock.recv(_READ_BYTES)
            stays = bool(data) and self._take(client, data)
        except OSError:
            stays = False  # reset, or it does not read its replies
        if not stays:
            self._close(client)

    def _take(self, client: Client, data: bytes) -> bool:
        """Answer while somebody waits: else slurmctld has let the job go as written."""
        client.seen_s = time.monotonic()
        client.buffer += data
        while (size := request_size(client.buffer)) is not None:
            if hung_up(client.sock):
                return False
            reply, stays = self._reply(client, bytes(client.buffer[:size]))
            client.sock.sendall(reply)
            del client.buffer[:size]
            if not stays:
                return False
        if len(client.buffer) > self.most_bytes:
            client.sock.sendall(self._refuse(f"a line is at most {self.most_bytes} bytes"))
            return False
        return True

    def _reply(self, client: Client, request: bytes) -> tuple[bytes, bool]:
        if len(request) > self.most_bytes:
            return self._refuse(f"a line is at most {self.most_bytes} bytes"), False
        try:
            return self._answering(request, client.uid)
        except Exception:  # a fault of ours must cost one answer, never the service
            log.exception("no answer to a line of %d bytes", len(request))
            return self._refuse("the advisor has a fault; its log says which"), False

    def _close(self, client: Client) -> None:
        self._clients.discard(client)
        self._selector.unregister(client.sock)
        client.sock.close()

    def _close_all(self) -> None:
        for client in list(self._clients):
            self._close(client)
        self._selector.close()
