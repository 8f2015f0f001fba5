"""Scripted advisors on a real unix socket, to be asked by the real Lua (in lua5.1 or slurmctld)."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from slurm_ext.core.wire import raw_size, texts_of

Behaviour = Callable[[socket.socket, bytes], None]

DECISION = "d1-0123456789abcdef"


def reply(edits: dict[str, Any] | None = None, message: str | None = None, **more: Any) -> bytes:
    """A reply line; without arguments, one that changes nothing."""
    body = {"v": 1, "decision": DECISION, "edits": edits or {}, "message": message, **more}
    return json.dumps(body).encode() + b"\n"


def cpus(count: int, tasks: int = 1, **env: str) -> dict[str, Any]:
    """The edits that make a job of `tasks` tasks use `count` CPUs each."""
    told = {"SLURM_CPUS_PER_TASK": str(count), "SRUN_CPUS_PER_TASK": str(count), **env}
    fields = {"cpus_per_task": count, "min_cpus": count * tasks, "pn_min_cpus": count}
    return {**fields, "env": told}


def says(line: bytes) -> Behaviour:
    """Answers every request with `line`."""
    return lambda connection, _: connection.sendall(line)


def hangs(connection: socket.socket, _: bytes) -> None:
    """Takes the request and never answers; ends when the other side gives up."""
    connection.recv(1)


def hangs_up(connection: socket.socket, _: bytes) -> None:
    """Takes the request and closes."""
    connection.shutdown(socket.SHUT_RDWR)


def drips(line: bytes) -> Behaviour:
    """Sends `line` so slowly that each byte is in time and the whole never is."""

    def behaviour(connection: socket.socket, _: bytes) -> None:
        for start in range(len(line)):
            connection.sendall(line[start : start + 1])
            time.sleep(0.02)

    return behaviour


def floods(connection: socket.socket, _: bytes) -> None:
    """100 MB without a newline."""
    for _megabyte in range(100):
        connection.sendall(b"x" * 1_000_000)


def half(line: bytes) -> Behaviour:
    """Half of `line`, then the end."""

    def behaviour(connection: socket.socket, _: bytes) -> None:
        connection.sendall(line[: len(line) // 2])
        connection.shutdown(socket.SHUT_RDWR)

    return behaviour


class FakeAdvisor:
    """Serves `behaviour` at `path` until the block ends; keeps every request it saw."""

    def __init__(self, path: Path, behaviour: Behaviour) -> None:
        self.path, self.behaviour = path, behaviour
        self.requests: list[dict[str, Any]] = []
        self.connections: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)

    def __enter__(self) -> "FakeAdvisor":
        self.path.unlink(missing_ok=True)
        self._listener.bind(str(self.path))
        self._listener.listen(16)
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for end in (self._listener, *self.connections):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in (self._listener, *self.connections):
            end.close()
        self.path.unlink(missing_ok=True)

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """The `job` of every request."""
        return [request["job"] for request in self.requests]

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections.append(connection)
                self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
                self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection.makefile("rb") as lines:
            for line in lines:
                raw = lines.read(raw_size(line))
                request = json.loads(line.decode("utf-8", "surrogateescape"))
                if raw:
                    request["job"] |= texts_of(raw)
                self.requests.append(request)
                self.behaviour(connection, line + raw)
