"""Bound what a job's run folder holds: one that is filled is closed to its user, and emptied.

The folder is its user's, on the node's disk. What dlqueue reads from it stays; the job loses what
it put there besides, and no later summary of its probe is taken. Its processes go on.
"""

from __future__ import annotations

import os
import stat
import time

from slurm_ext.node.common.files import FOLDER, has_user_mounts
from slurm_ext.node.common.removal import clear, take_over
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
_WRITE = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class RunFolder:
    """The run folder of a job whose user is `uid`."""

    def __init__(self, path: str, uid: int) -> None:
        self.path, self.uid = path, uid
        self.faults: list[str] = []
        self.spent_s = 0.0  # CPU time for what its user put there: no part of measuring's cost
        self.is_filled = False

    def look(self) -> None:
        """Close the folder if it holds too much; go on emptying one that is closed."""
        if has_user_mounts(self.path):
            return  # root does not look into it, and reads nothing from it at the end
        try:
            folder = os.open(self.path, FOLDER)
        except OSError:
            return  # its user removed it
        try:
            closed = os.fstat(folder).st_uid != self.uid
            if closed or _is_filled(folder):
                self._close(folder)
        except OSError:
            pass  # a race with its user: the next look
        finally:
            os.close(folder)

    def _close(self, folder: int) -> None:
        started_s = time.process_time()
        self.faults = [CLOSED]
        take_over(folder)
        os.fchmod(folder, 0o700)
        kept: set[str] = set()
        deadline = time.monotonic() + CLEAR_S
        _cut_files(folder, self.uid, deadline)
        self.is_filled = not clear(folder, deadline, lambda entry: _is_ours(entry, kept))
        self.spent_s += time.process_time() - started_s


def _is_filled(folder: int) -> bool:
    """True if there is more below than a probe leaves, or deeper; counts no further."""
    size = 0
    for count, status in enumerate(_below(folder)):
        size += status.st_blocks * 512 if status else MAX_BYTES + 1
        if size > MAX_BYTES or count >= MAX_ENTRIES:
            return True
    return False


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


def _cut_files(folder: int, uid: int, deadline: float) -> None:
    """Cut and remove the user's files, so that one that is held open gives its room back, too."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if time.monotonic() > deadline:
                return
            if entry.is_file(follow_symlinks=False) and not _is_ours(entry, set()):
                _cut(folder, entry.name, uid)
                os.unlink(entry.name, dir_fd=folder)


def _cut(folder: int, name: str, uid: int) -> None:
    fd = os.open(name, _WRITE, dir_fd=folder)
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
