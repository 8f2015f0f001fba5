"""`/metrics` for Prometheus: threads beside the answering one, one scrape at a time, bounded.

Whatever happens here, submissions are answered: a port that is taken costs the metrics, not the
advisor, who reads slowly is cut off, and where many do, the oldest makes room for the next scrape.
"""

import logging
import socket
import socketserver
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from slurm_ext.advisor.places import Places
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.advisor.service.prometheus_collector import PrometheusCollector
from slurm_ext.core.settings.loops_and_metrics import address_of

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

MOST_S = 10.0  # of one client
MOST_CLIENTS = 8
log = logging.getLogger(__name__)


class MetricsServer(threading.Thread):
    """Answers scrapes until it is stopped; `start` logs the address, or what is wrong with it."""

    def __init__(self, advisor: Advisor) -> None:
        super().__init__(name="metrics", daemon=True)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(PrometheusCollector(advisor))
        self._app = _one_at_a_time(make_wsgi_app(registry))
        self._where = advisor.settings["metrics.listen"]
        self._server: WSGIServer | None = None

    def start(self) -> None:
        """Listen, then answer beside the caller."""
        host, port = address_of(self._where)
        kind = _SixServer if ":" in host else _Server
        try:
            self._server = kind((host, port), _Handler)
        except OSError as error:
            log.error("no metrics: %s cannot be listened at: %s", self._where, error.strerror)
            return
        self._server.set_app(self._app)
        log.info("metrics at http://%s:%d/metrics", host, self._server.server_port)
        super().start()

    def run(self) -> None:
        """Each client has a thread, so that one who is slow holds up no other."""
        if self._server is not None:
            self._server.serve_forever(poll_interval=0.5)

    def stop(self) -> None:
        """End soon; a client that is just being answered is not waited for."""
        if self._server is not None:
            threading.Thread(target=self._server.shutdown, daemon=True).start()


def _one_at_a_time(app: "WSGIApplication") -> "WSGIApplication":
    """The application for several threads: a submission has to wait for one of them at most."""
    lock = threading.Lock()

    def locked(environ: "WSGIEnvironment", start_response: "StartResponse") -> Any:
        with lock:
            return app(environ, start_response)

    return locked


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    request_queue_size = 8
    daemon_threads = True
    block_on_close = False

    def __init__(self, *values: Any) -> None:
        self.places = Places(most=MOST_CLIENTS, of_peer=MOST_CLIENTS)
        super().__init__(*values)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """True if there is a place for one more client."""
        return self.places.admit(request, client_address[0])

    def shutdown_request(self, request: Any) -> None:
        """As usual, and the place is free again."""
        self.places.leave(request)
        super().shutdown_request(request)

    def server_bind(self) -> None:
        """As usual, but the machine's name is not looked up, which can take long."""
        socket.socket.bind(self.socket, self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "dlqueue", self.server_address[1]
        self.setup_environ()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """One client's request, within MOST_S whatever it does."""
        late = threading.Timer(MOST_S, _cut_off, (request,))
        late.daemon = True
        late.start()
        try:
            with suppress(OSError):  # it went away, or was cut off
                super().finish_request(request, client_address)
        finally:
            late.cancel()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Said in the log, as all else."""
        del request, client_address
        log.error("a scrape failed: %s", sys.exception())


class _SixServer(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = MOST_S

    def log_message(self, *_: object) -> None:
        """Nothing: a line a scrape helps nobody."""


def _cut_off(request: socket.socket) -> None:
    with suppress(OSError):  # it has gone by itself
        request.shutdown(socket.SHUT_RDWR)
