"""A TCP server whose callers say who they are before anything else of theirs is read.

A thread a connection, as many as there are places. What it does with a caller is a subclass's.
"""

import io
import json
import logging
import socket
import socketserver
import sys
import time
from typing import Any

from slurm_ext.advisor.places import Places, TimedReader
from slurm_ext.advisor.stream_header import MAX_HEADER_BYTES
from slurm_ext.core.errors import InputError

POLL_S = 0.1  # how soon it ends
HEADER_S = 10.0  # for a whole header: a caller asks munge for it
REPLY_S = 10.0
REST_S = 5.0  # for the rest of what was refused: an end that is reset hides the reason
REPORT_EVERY_S = 10.0
log = logging.getLogger(__name__)


def address_of(source: str, key: str, where: str) -> tuple[str, int]:
    """Host and port of a setting. Raises InputError naming it."""
    host, _, port = where.rpartition(":")
    if not port.isdecimal() or not host:
        raise InputError(source, f"{key} = {where!r} is not host:port")
    return host.strip("[]"), int(port)


class StreamServer(socketserver.ThreadingTCPServer):
    """Connections with places, and a log that no caller can fill."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    what = "a connection"  # in the log

    def __init__(
        self, address: tuple[str, int], handler: type["StreamConnection"], places: Places
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.places = places
        self._refused, self._reported_s = 0, float("-inf")
        super().__init__(address, handler)

    def report(self, peer: object, error: BaseException | None) -> None:
        """Log a refusal, or count it for the next line: a peer must not fill the log."""
        self._refused += 1
        if time.monotonic() - self._reported_s < REPORT_EVERY_S:
            return
        counted = f" ({self._refused} since the last line)" if self._refused > 1 else ""
        log.warning("%s from %s was refused: %s%s", self.what, peer, error, counted)
        self._refused, self._reported_s = 0, time.monotonic()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """True if there is a place for one more connection."""
        return self.places.admit(request, client_address[0])

    def shutdown_request(self, request: Any) -> None:
        """As the base class does it, and the place is free again, whatever happened."""
        self.places.leave(request)
        super().shutdown_request(request)

    def handle_error(self, _: Any, client_address: Any) -> None:
        """A connection that broke is the caller's to repeat."""
        self.report(client_address, sys.exception())


class StreamConnection(socketserver.BaseRequestHandler):
    """One connection: lines and bytes in a bounded time, JSON lines back."""

    def setup(self) -> None:
        """Read by a clock of its own."""
        self.timed = TimedReader(self.request)
        self.stream = io.BufferedReader(self.timed)

    def read_line(self) -> bytes:
        """A header's line; cut at the most that one may have."""
        self.timed.allow(HEADER_S)
        return self.stream.readline(MAX_HEADER_BYTES)

    def read_body(self, size_bytes: int, seconds: float) -> bytes:
        """The announced bytes, fewer where the caller ended early."""
        self.timed.allow(seconds)
        return self.stream.read(size_bytes)

    def reply(self, body: dict[str, object], more: bytes = b"") -> None:
        """Send a line, and bytes behind it."""
        self.request.settimeout(REPLY_S)
        self.request.sendall(json.dumps(body).encode() + b"\n" + more)

    def read_rest(self, most_bytes: int) -> None:
        """Read what the peer still sends, and forget it."""
        self.request.shutdown(socket.SHUT_WR)
        self.timed.allow(REST_S)
        while most_bytes > 0 and (piece := self.stream.read1(1 << 16)):
            most_bytes -= len(piece)
