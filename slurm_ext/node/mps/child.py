"""Programs run as the job's user, each with a deadline that holds even if they hang.

A process that hangs in the driver cannot be killed: it is left behind, and the hook goes on.
"""

from __future__ import annotations

import os
import select
import time

from slurm_ext.node.common.signals import send
from slurm_ext.node.mps.processes import is_alive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import NoReturn

MAX_OUTPUT = 64 * 1024
REAP_S = 0.1  # after SIGKILL
POLL_S = 0.002


NOBODY = 65534  # the group of a user without a known one


class Owner:
    """The user who owns a process."""

    def __init__(self, uid: int, gid: int, user: str | None) -> None:
        self.uid, self.gid, self.user = uid, gid, user

    def possible(self) -> bool:
        """True if this process may become the user."""
        return os.geteuid() in (0, self.uid)

    def become(self, *, groups: bool = False) -> None:
        """Give up every other right, in a child. Raises OSError.

        `groups`: with all groups of the user, as /dev/nvidia* may be a group's; asks a directory.
        """
        if os.geteuid() != 0 or self.uid == 0:
            return
        os.setgroups([self.gid])
        if groups and self.user:
            try:
                os.initgroups(self.user, self.gid)
            except OSError:
                pass  # no user of that name here
        os.setgid(self.gid)
        os.setuid(self.uid)


def run(
    argv: list[str],
    env: Mapping[str, str],
    owner: Owner,
    deadline: float,
    *,
    stdin: str = "",
    groups: bool = False,
) -> str | None:
    """Stdout of `argv` given `stdin`, or None on failure or after `deadline` (monotonic)."""
    reading, out = os.pipe()
    into, writing = os.pipe()
    null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        standard = (into, out, null)
        _end_after(lambda: _exec(argv, env, lambda: owner.become(groups=groups), standard))
    for fd in (out, into, null):
        os.close(fd)
    try:
        os.write(writing, stdin.encode())
    except OSError:
        pass  # it ended without reading
    os.close(writing)
    try:
        return _harvest(pid, reading, deadline)
    finally:
        os.close(reading)


def signal(owner: Owner, pid: int, start: int, number: int, deadline: float) -> None:
    """Send a signal as the user: whatever a forged or reused pid names, it is his own."""
    child = os.fork()
    if child == 0:
        _end_after(lambda: _send(owner, pid, start, number))
    _reap(child, deadline)


def _send(owner: Owner, pid: int, start: int, number: int) -> None:
    owner.become()
    send(pid, number, lambda: is_alive(pid, start))


def _exec(
    argv: list[str],
    env: Mapping[str, str],
    become: Callable[[], None],
    standard: tuple[int, int, int],
) -> None:
    os.setsid()  # slurmd kills the prolog's process group; a daemon outlives it
    for number, fd in enumerate(standard):
        os.dup2(fd, number)
    os.chdir("/")
    become()
    os.execve(argv[0], argv, dict(env))  # noqa: S606 - no shell is the point


def _end_after(work: Callable[[], None]) -> NoReturn:
    try:
        work()
    # In a child nothing may go further up: two hooks would do the rest.
    except BaseException:
        os._exit(127)
    os._exit(0)


def _harvest(pid: int, reading: int, deadline: float) -> str | None:
    """The output until the process ends, not until the pipe closes: a daemon may keep that."""
    os.set_blocking(reading, False)
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    output, status = b"", None
    while status is None and time.monotonic() < deadline:
        poll.poll(POLL_S * 1000)
        status = _status(pid)
        output = _more(reading, output)
    if status is None:
        _kill_group(pid)
        _reap(pid, time.monotonic() + REAP_S)
    return _more(reading, output).decode("utf-8", "replace") if status == 0 else None


def _more(reading: int, output: bytes) -> bytes:
    try:
        chunk = os.read(reading, MAX_OUTPUT)
    except BlockingIOError:
        return output
    if not chunk:
        time.sleep(POLL_S)  # closed: the poll does not wait any more
    return (output + chunk)[:MAX_OUTPUT]


def _status(pid: int) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    return status if ended else None


def _reap(pid: int, deadline: float) -> None:
    while _status(pid) is None and time.monotonic() < deadline:
        time.sleep(POLL_S)


def _kill_group(pid: int) -> None:
    """The child, which may not have come as far as a group of its own, and what it started."""
    os.kill(pid, 9)
    try:
        os.killpg(pid, 9)
    except OSError:
        pass
