"""Bound what a job's run folder holds: one that is filled is closed to its user, and emptied.

The folder is its user's, on the node's disk. What dlqueue reads from it stays; the job loses what
it put there besides, and no later summary of its probe is taken. Its processes go on. A file that
one of them has open for writing keeps its name, so that each look can cut it again.
"""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import time

from slurm_ext.node.common.files import FOLDER, has_user_mounts
from slurm_ext.node.common.removal import clear, new_name, take_over
from slurm_ext.node.record import summaries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES = 16 * 1024 * 1024
MAX_ENTRIES = summaries.MAX_ENTRIES
MAX_DEPTH = 8
CLEAR_S = 0.1  # of one look
NOTES = ("decision", "lend", "curve", "workers", "lent", "mps")
CLOSED = f"the run folder held over {MAX_BYTES >> 20} MiB or {MAX_ENTRIES} entries: it was closed"
_SAFELY = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
FULL = float("inf")  # share of the bounds


class RunFolder:
    """The run folder of a job whose user is `uid`."""

    def __init__(self, path: str, uid: int) -> None:
        self.path, self.uid = path, uid
        self.faults: list[str] = []
        self.spent_s = 0.0  # CPU time for what its user put there: no part of measuring's cost
        self.is_filled = False
        self.share = 0.0  # of what it may hold; FULL: more than that
        self.has_folders = False

    def look(self) -> None:
        """Close the folder if it holds too much; go on emptying one that is closed."""
        started_s = time.process_time()
        try:
            self._look()
        finally:
            self.spent_s += time.process_time() - started_s

    def _look(self) -> None:
        if has_user_mounts(self.path):
            return  # root does not look into it, and reads nothing from it at the end
        try:
            folder = os.open(self.path, FOLDER)
        except OSError:
            return  # its user removed it
        try:
            closed = os.fstat(folder).st_uid != self.uid
            if not closed:
                self.share, self.has_folders = _held(folder)
            if closed or self.share == FULL:
                self._close(folder)
        except OSError:
            pass  # a race with its user: the next look
        finally:
            os.close(folder)

    def _close(self, folder: int) -> None:
        self.faults = [CLOSED]
        take_over(folder)
        os.fchmod(folder, 0o700)
        kept: set[str] = set()
        deadline = time.monotonic() + CLEAR_S

        def drop(name: str, dir_fd: int) -> None:
            _drop(name, dir_fd, folder, self.uid)

        self.is_filled = not clear(folder, deadline, lambda entry: _is_ours(entry, kept), drop)


def _held(folder: int) -> tuple[float, bool]:
    """Share of the bounds that is below, FULL beyond them or too deep; and if folders are there.

    A file counts with its whole length: pages of it may be filled without a sign.
    """
    size, folders = 0, False
    count = 0
    for count, status in enumerate(_below(folder), start=1):
        if status is None or count > MAX_ENTRIES:
            return FULL, True
        is_file = stat.S_ISREG(status.st_mode)
        size += max(status.st_blocks * 512, status.st_size if is_file else 0)
        folders = folders or stat.S_ISDIR(status.st_mode)
        if size > MAX_BYTES:
            return FULL, folders
    return max(size / MAX_BYTES, count / MAX_ENTRIES), folders


def _below(folder: int) -> Iterator[os.stat_result | None]:
    """Status of every entry below an open folder; None for one that cannot be looked into."""
    open_folders = [os.dup(folder)]
    scans = [os.scandir(folder)]
    try:
        while scans:
            entry = next(scans[-1], None)
            if entry is None:
                scans.pop().close()
                os.close(open_folders.pop())
                continue
            try:
                yield entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False) and len(scans) < MAX_DEPTH:
                    open_folders.append(os.open(entry.name, FOLDER, dir_fd=open_folders[-1]))
                    scans.append(os.scandir(open_folders[-1]))
                elif entry.is_dir(follow_symlinks=False):
                    yield None
            except FileNotFoundError:
                continue  # gone meanwhile
            except OSError:
                yield None  # a mount of the user's, say
    finally:
        for scan in scans:
            scan.close()
        for fd in open_folders:
            os.close(fd)


def _drop(name: str, dir_fd: int, top: int, uid: int) -> None:
    """Cut and remove one file; raises OSError for one that goes on being written: it stays."""
    if not _is_written_after_cut(name, dir_fd, uid):
        os.unlink(name, dir_fd=dir_fd)
    elif dir_fd == top:
        raise BlockingIOError(name)
    else:
        os.rename(name, new_name(), src_dir_fd=dir_fd, dst_dir_fd=top)


def _is_written_after_cut(name: str, dir_fd: int, uid: int) -> bool:
    """True if a process has the file open for writing: the kernel gives no lease on it then."""
    try:
        fd = os.open(name, os.O_RDONLY | _SAFELY, dir_fd=dir_fd)
    except OSError:
        return False  # a link, a socket
    try:
        if os.fstat(fd).st_size:
            _cut(dir_fd, name, uid)
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)  # who opens it meanwhile must not end us
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except BlockingIOError:
        return True
    except OSError:
        return False  # a pipe, or a file system without leases
    finally:
        os.close(fd)
    return False


def _cut(folder: int, name: str, uid: int) -> None:
    fd = os.open(name, os.O_WRONLY | _SAFELY, dir_fd=folder)
    try:
        status = os.fstat(fd)
        # A second name may be in the user's home: that file is not of this folder.
        if stat.S_ISREG(status.st_mode) and status.st_uid == uid and status.st_nlink == 1:
            os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def _is_ours(entry: os.DirEntry[str], kept: set[str]) -> bool:
    """True for the files that dlqueue reads or wrote, as many and as large as it reads."""
    if entry.name in kept:
        return True
    few = len(kept) < summaries.MAX_FILES + len(NOTES)
    named = entry.name in NOTES or summaries.is_summary(entry.name)
    if few and named and entry.is_file(follow_symlinks=False):
        size = entry.stat(follow_symlinks=False).st_size
        kept.update({entry.name} if 0 < size <= summaries.MAX_BYTES else ())
    return entry.name in kept
