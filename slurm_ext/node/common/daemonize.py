"""Leaving work behind: a child in its own session that holds nothing of ours open.

slurmd kills the process group of a prolog that ends, and waits for its output to close. So the
child reports over a pipe when it has left both; only then may the hook end.
"""

from __future__ import annotations

import os
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

MAX_OUTPUT = 64 * 1024


def daemonize(name: str, work: Callable[[], None], wait_s: float) -> int | None:
    """Start `work` in the background as a process called `name`; its pid once it stands alone.

    None if it did not report within `wait_s`.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _stand_alone(name, writing, work)
    os.close(writing)
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    reported = bool(poll.poll(wait_s * 1000)) and os.read(reading, 1) == b"+"
    os.close(reading)
    return pid if reported else None


def _stand_alone(name: str, report_fd: int, work: Callable[[], None]) -> NoReturn:
    try:
        os.setsid()
        _drop_descriptors(report_fd)
        with open("/proc/self/comm", "w", encoding="utf-8") as comm:
            comm.write(name)
        os.chdir("/")
        try:
            os.write(report_fd, b"+")
        except BrokenPipeError:
            pass  # the hook waited no longer, or was killed: the work is to be done all the same
        os.close(report_fd)
        work()
    # No caller is left: a helper that fails only means a record with fewer counters.
    except BaseException as error:
        from slurm_ext.node.common import log

        log.report(f"{name}: {type(error).__name__}: {error}")
    finally:
        os._exit(0)


def _drop_descriptors(kept: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    for fd in {int(name) for name in os.listdir("/proc/self/fd")} - {0, 1, 2, kept}:
        try:
            os.close(fd)
        except OSError:
            pass  # the listing's own descriptor is already closed


def output_of(
    argv: list[str], env: dict[str, str], wait_s: float, most: int = MAX_OUTPUT
) -> bytes | None:
    """Stdout of `argv`, or None on failure, after `wait_s` seconds or at `most` bytes.

    A fraction of subprocess's import time, which matters to a hook.
    """
    reading, writing = os.pipe()
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    actions = [
        (os.POSIX_SPAWN_DUP2, null, 0),
        (os.POSIX_SPAWN_DUP2, writing, 1),
        (os.POSIX_SPAWN_DUP2, null, 2),
    ]
    try:
        pid = os.posix_spawn(argv[0], argv, env, file_actions=actions, setpgroup=0)
    except OSError:
        os.close(reading)
        return None
    finally:
        os.close(writing)
        os.close(null)
    return _harvest(pid, reading, wait_s, most)


def _harvest(pid: int, reading: int, wait_s: float, most: int) -> bytes | None:
    import time

    deadline = time.monotonic() + wait_s
    poll = select.poll()
    poll.register(reading, select.POLLIN | select.POLLHUP)
    output = bytearray()
    ended = False
    while len(output) < most and poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        chunk = os.read(reading, MAX_OUTPUT)
        if not chunk:
            ended = True
            break
        output += chunk
    os.close(reading)
    if not ended:
        os.killpg(pid, 9)
    status = os.waitpid(pid, 0)[1]
    return bytes(output) if ended and status == 0 else None
