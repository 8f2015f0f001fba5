"""Starts the supervisor, sends it requests, and ends it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from slurm_ext.core.errors import SandboxError
from slurm_ext.sandbox.layout import SandboxLayout
from slurm_ext.sandbox.manifest import ProcessId, SandboxManifest, write_manifest
from slurm_ext.sandbox.processes import bearing, is_same, send, start_time

REPLY_S = 60.0  # longer than any reply takes on a busy machine
END_S = 20.0  # a supervisor that has not ended by then is killed, and `end` does its work
MARK = "DLQUEUE_SANDBOX"  # in the environment of everything that runs in a sandbox
_MODULE = "slurm_ext.sandbox.supervisor"


def launch(manifest: SandboxManifest, env: Mapping[str, str], owned: bool) -> None:
    """Start the supervisor of `manifest`, which is written, and add its pid to the file."""
    layout = manifest.plan.layout
    with (layout.log / "supervisor.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", _MODULE, str(layout.root), str(os.getpid() if owned else 0)],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
            cwd="/",
        )
    write_manifest(manifest.with_supervisor(process.pid, start_time(process.pid) or 0))
    deadline = time.monotonic() + REPLY_S
    while ask(layout, "status", quiet=True) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            path = layout.log / "supervisor.log"
            last = path.read_text(errors="replace").splitlines()[-1:]
            raise SandboxError(" ".join(["the supervisor did not start: see", f"{path}:", *last]))
        time.sleep(0.01)
    # `end` waits for it by its pid, maybe from another process than this.
    process.returncode = 0


def ask(
    layout: SandboxLayout,
    verb: str,
    *,
    quiet: bool = False,
    reply_s: float = REPLY_S,
    **request: Any,
) -> Any:
    """Return the supervisor's reply. Raises SandboxError; with `quiet`, None without a reply."""
    try:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(reply_s + request.get("grace_s", 0.0))
            link.connect(str(layout.control_socket))
            link.sendall(json.dumps({"do": verb, **request}).encode() + b"\n")
            with link.makefile() as stream:
                answer = json.loads(stream.readline())
    except (OSError, ValueError) as error:
        if quiet:
            return None
        raise SandboxError(f"the sandbox in {layout.root} is not running ({error})") from None
    if isinstance(answer, dict) and "error" in answer:
        raise SandboxError(f"{verb} {request}: {answer['error']}")
    return answer


def end(layout: SandboxLayout, supervisor: ProcessId) -> None:
    """Have the supervisor end everything; without one, kill processes with the sandbox's MARK."""
    if ask(layout, "down", quiet=True, reply_s=END_S) is None and _lives(supervisor):
        send(supervisor.pid, signal.SIGTERM)
    deadline = time.monotonic() + END_S
    while _lives(supervisor) and time.monotonic() < deadline:
        time.sleep(0.005)
    if _lives(supervisor):
        send(supervisor.pid, signal.SIGKILL)
    with suppress(ChildProcessError):  # it is a child only of the process that called `up`
        os.waitpid(supervisor.pid, 0)
    while left := bearing(f"{MARK}={layout.root}"):
        for pid in left:
            send(pid, signal.SIGKILL)
        time.sleep(0.01)


def _lives(supervisor: ProcessId) -> bool:
    return is_same(supervisor.pid, supervisor.started, _MODULE)
