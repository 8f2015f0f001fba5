"""Ancestor process of a sandbox: starts and stops its daemons, and ends them all with itself.

    python -m slurm_ext.sandbox.supervisor ROOT OWNER_PID     (0: no owner)

It is a subreaper: processes that daemonize below it, slurmstepd and jobs' included, become its
children, so that its descendants are the whole sandbox and nothing else. Two processes watch each
other: if the one that serves dies, the other kills what is left; if the other or the owner dies,
the one that serves does. Which commands it runs follows from the manifest's numbers (`plan.py`).

Requests are JSON lines on a unix socket: {"do": "start" | "stop" | "status" | "down", ...}.
"""

import ctypes
import json
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from slurm_ext.sandbox.leftovers import clean
from slurm_ext.sandbox.manifest import SandboxManifest, read_manifest
from slurm_ext.sandbox.plan import daemons
from slurm_ext.sandbox.processes import kill_descendants, send

GRACE_S = 3.0  # slurmctld needs about a second to save its state
REAP_S = 0.1
_PR_SET_CHILD_SUBREAPER = 36


class Supervisor:
    """Daemons of one sandbox, by name."""

    def __init__(self, manifest: SandboxManifest) -> None:
        self.manifest = manifest
        self.daemons = {daemon.name: daemon for daemon in daemons(manifest.plan)}
        self.pids: dict[str, int] = {}
        self.exits: dict[str, int] = {}

    def start(self, name: str) -> dict[str, object]:
        """Start a daemon with its output in its log; return its pid."""
        if name in self.pids:
            return {"pid": self.pids[name]}
        daemon = self.daemons[name]
        path = self.manifest.plan.layout.log / daemon.log
        log = (os.POSIX_SPAWN_OPEN, 1, str(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.pids[name] = os.posix_spawnp(
            daemon.argv[0],
            daemon.argv,
            {**os.environ, **daemon.env},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                log,
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        self.exits.pop(name, None)
        return {"pid": self.pids[name]}

    def stop(self, name: str, number: int = signal.SIGTERM, grace_s: float = GRACE_S) -> None:
        """Send a signal, then SIGKILL if the daemon still runs."""
        pid = self.pids.get(name)
        if pid is not None:
            send(pid, signal.Signals(number))
            self._await([name], grace_s)
            send(pid, signal.SIGKILL)
            self._await([name], GRACE_S)

    def status(self) -> dict[str, object]:
        """Return pids of running daemons, exit statuses of ended ones (minus the signal)."""
        return {"pid": os.getpid(), "daemons": self.pids, "exits": self.exits}

    def down(self) -> None:
        """Stop everything; by SIGTERM first if the folder stays, so that logs are complete."""
        if not self.manifest.temporary:
            for pid in self.pids.values():
                send(pid, signal.SIGTERM)
            self._await(list(self.pids), GRACE_S)

    def reap(self) -> None:
        """Collect ended processes, adopted ones included."""
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                name = next((n for n, pid in self.pids.items() if pid == ended[0]), None)
                if name is not None:
                    del self.pids[name]
                    self.exits[name] = os.waitstatus_to_exitcode(ended[1])

    def _await(self, names: list[str], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while any(name in self.pids for name in names) and time.monotonic() < deadline:
            self.reap()
            time.sleep(0.01)


def serve(supervisor: Supervisor, listener: socket.socket, lives: list[int]) -> None:
    """Answer requests until `down` comes, or until a process of `lives` (pidfds) ends."""
    while True:
        ready = select.select([listener.fileno(), *lives], [], [], REAP_S)[0]
        supervisor.reap()
        if any(life in ready for life in lives):
            supervisor.down()
            return
        if listener.fileno() in ready and not _answer(supervisor, listener):
            return


def _answer(supervisor: Supervisor, listener: socket.socket) -> bool:
    """Answer one request; False after `down`. A client that goes away is ignored."""
    client, _ = listener.accept()
    with client, suppress(OSError):
        client.settimeout(2.0)
        with client.makefile("rw") as stream:
            request = json.loads(stream.readline() or "{}")
            verb = request.pop("do", None)
            answer = _obey(supervisor, verb, request)
            stream.write(json.dumps(answer) + "\n")
        return bool(verb != "down")
    return True


def _obey(supervisor: Supervisor, verb: str | None, request: dict[str, Any]) -> object:
    try:
        if verb in ("start", "stop", "status", "down"):
            return getattr(supervisor, verb)(**request) or {}  # None would look like no reply
    except (OSError, LookupError, TypeError, ValueError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"error": f"unknown request {verb!r}"}


def main(root: str, owner: int) -> None:
    """Become the ancestor, fork, serve; sweep whatever happens. Raises SandboxError."""
    manifest = read_manifest(Path(root))
    _become_subreaper()
    lives = [os.pidfd_open(owner)] if owner else []
    partner = os.pidfd_open(os.getpid())
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if serving := os.fork():
        signal.signal(signal.SIGTERM, lambda *_: send(serving, signal.SIGTERM))
        os.waitpid(serving, 0)
        _sweep(manifest)
        return
    _become_subreaper()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    _serve_and_sweep(manifest, [*lives, partner])


def _serve_and_sweep(manifest: SandboxManifest, lives: list[int]) -> None:
    supervisor, control = Supervisor(manifest), str(manifest.plan.layout.control_socket)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            mask = os.umask(0o177)  # only this user ever connects, and not for a moment anybody
            listener.bind(control)
            os.umask(mask)
            listener.listen()
            serve(supervisor, listener, lives)
    finally:
        _sweep(manifest)


def _sweep(manifest: SandboxManifest) -> None:
    kill_descendants()
    clean(manifest.plan, temporary=manifest.temporary)


def _become_subreaper() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
