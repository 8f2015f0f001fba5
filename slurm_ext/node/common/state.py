"""State of one unfinished job, in `state/<key>.json`, and the lock that says who may touch it.

Whoever holds the lock owns the job: its sampler while it lives, then whoever finishes the record.
A lock dies with its holder, so a killed sampler is simply one whose lock is free: a POSIX record
lock, for a child that is forked does not hold it too, as it would flock's. Such a lock also goes
when its process closes any other descriptor of the file; so nobody opens a lock that it holds.
"""

from __future__ import annotations

import fcntl
import json
import os
import time

from slurm_ext.node.common.files import read_bounded, write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_ext.node.common.spool_layout import Spool

MAX_BYTES = 4 * 1024 * 1024
RESERVE_BYTES = 64 * 1024
POLL_S = 0.001


_held: set[tuple[int, int, int]] = set()  # process, device and inode: what we have ourselves


class Lock:
    """The exclusive right to one job's state; released with the process at the latest."""

    def __init__(self, fd: int) -> None:
        self.fd, self._name = fd, _name(os.fstat(fd))
        _held.add(self._name)

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        _held.discard(self._name)
        os.close(self.fd)

    def stands(self) -> bool:
        """True while its file is there: it goes with the spool's folders."""
        return os.fstat(self.fd).st_nlink > 0

    def sign(self) -> None:
        """Write our pid into the lock: this holder may be asked to end by SIGTERM."""
        os.pwrite(self.fd, b"%d" % os.getpid(), 0)


def lock(path: str, wait_s: float = 0.0) -> Lock | None:
    """The lock at `path`, waiting at most `wait_s`; None while somebody holds it."""
    deadline = time.monotonic() + wait_s
    while True:
        attempt = _attempt(path)
        if attempt is not None or time.monotonic() >= deadline:
            return attempt
        time.sleep(POLL_S)


def is_held(path: str) -> bool:
    """True while some process holds the lock at `path`."""
    attempt = _attempt(path)
    if attempt is None:
        return True
    with attempt:
        return False


def _attempt(path: str) -> Lock | None:
    try:
        if _name(os.stat(path, follow_symlinks=False)) in _held:
            return None
    except FileNotFoundError:
        pass
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(fd, 0)  # an earlier holder's signature
    except BlockingIOError:
        os.close(fd)
        return None
    except OSError:
        os.close(fd)
        raise
    return Lock(fd)


def _name(status: os.stat_result) -> tuple[int, int, int]:
    return os.getpid(), status.st_dev, status.st_ino


def signed_pid(path: str) -> int | None:
    """The pid that signed the lock at `path`; meaningful only while the lock is held."""
    try:
        signed = read_bounded(path, 32)
    except (OSError, ValueError):
        return None
    return int(signed) if signed.isdigit() else None


def save(spool: Spool, key: str, kind: str, content: object, *, durable: bool) -> None:
    """Write one of the job's state files as a whole. Raises OSError.

    `durable` waits for the content only: a file system keeps the order of names, and transport
    waits for them before it sends a record.
    """
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    write_whole(spool.state_file(key, kind), text.encode(), durable=durable, name_too=False)


def load(spool: Spool, key: str, kind: str) -> dict[str, Any] | None:
    """One of the job's state files; None if it is absent or torn."""
    try:
        content = json.loads(read_bounded(spool.state_file(key, kind), MAX_BYTES).decode())
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def reserve(spool: Spool, key: str) -> None:
    """Keep room on the disk for this job's record, however full it gets until then."""
    path = spool.state_file(key, "reserve")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.posix_fallocate(fd, 0, RESERVE_BYTES)
    finally:
        os.close(fd)


def boot_id() -> str:
    """Names this boot of the machine: with another one, every process of before is gone."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            return file.read(64).strip()
    except OSError:
        return ""


def uptime_s() -> float:
    """Seconds since boot: a clock that is never set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
