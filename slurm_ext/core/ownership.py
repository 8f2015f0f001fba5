"""Owners of files: files that root creates go to their folder's owner; foreign files are refused.

The state folder belongs to the advisor's user. Loops, imports and trainings may run as root, and
the advisor has to read and change what they write. What root obeys (settings, manifests) has to be
written by root alone.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_APPEND = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_MOST_BYTES = 16 << 20


def why_foreign(info: os.stat_result) -> str | None:
    """Reason why another user may have written this file or folder; None if nobody else can."""
    if info.st_uid not in (0, os.geteuid()):
        return f"belongs to another user (uid {info.st_uid})"
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"can be written by others (mode {stat.S_IMODE(info.st_mode):o})"
    return None


def trust_path() -> None:
    """Let root find programs only in absolute folders of PATH into which not everybody writes.

    A program of a user's name for one of Slurm's, in the folder where root happens to be, is none.
    """
    if os.geteuid() == 0 and "PATH" in os.environ:
        folders = os.environ["PATH"].split(os.pathsep)
        os.environ["PATH"] = os.pathsep.join(filter(_is_trusted, folders)) or os.defpath


def _is_trusted(folder: str) -> bool:
    try:
        return folder.startswith("/") and not os.stat(folder).st_mode & stat.S_IWOTH  # noqa: PTH116
    except OSError:
        return folder.startswith("/")


@contextmanager
def open_folder(path: Path) -> Iterator[int]:
    """Open a folder that is no link, for as long as the block runs. Raises OSError."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield folder
    finally:
        os.close(folder)


def read_own(path: Path, *, folder: int | None = None) -> bytes:
    """Read a plain file that only this user or root can write; judged and read by one descriptor.

    Raises PermissionError with the reason, or another OSError. `path` is no link; it may be
    relative to an open `folder`.
    """
    file = os.open(path, _READ, dir_fd=folder)
    info = os.fstat(file)
    why = why_foreign(info) if stat.S_ISREG(info.st_mode) else "is no plain file"
    if why is not None:
        os.close(file)
        raise PermissionError(errno.EPERM, why, str(path))
    with os.fdopen(file, "rb") as stream:
        return stream.read(_MOST_BYTES)


def chown_to_parent(path: Path) -> None:
    """Give `path` (of a link, the link) to the owner of its folder, if this is root. OSError."""
    owner, info = path.parent.stat(), path.lstat()
    if os.geteuid() == 0 and not _same_owner(info, owner):
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _same_owner(info: os.stat_result, other: os.stat_result) -> bool:
    """True if nothing is to be changed: a confined root may not even ask."""
    return (info.st_uid, info.st_gid) == (other.st_uid, other.st_gid)


def appendable(path: Path, *, mode: int) -> int:
    """Open a plain file to read and append; a new one goes to its folder's owner. OSError."""
    try:
        file = os.open(path, _APPEND | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        file = os.open(path, _APPEND)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise OSError(f"{path} is no file") from None
        return file
    owner = path.parent.stat()
    if os.geteuid() == 0 and not _same_owner(os.fstat(file), owner):
        os.fchown(file, owner.st_uid, owner.st_gid)
    return file


def newline_if_torn(file: int) -> bytes:
    """Return a newline if the file's last line has none: a cut line must not join the next."""
    size = os.fstat(file).st_size
    return b"\n" if size and os.pread(file, 1, size - 1) != b"\n" else b""


def make_folder(path: Path, *, mode: int = 0o750) -> None:
    """Make a folder and its missing parents; one that exists stays as it is. OSError.

    `mode` is exact, whatever the umask, for the new parents as well.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        try:
            folder.mkdir()
        except FileExistsError:
            continue  # another process was faster, and sets the owner as well
        folder.chmod(mode)
        chown_to_parent(folder)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
