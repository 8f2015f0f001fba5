"""Files without surprises: bounded reads that follow no link, and whole writes."""

from __future__ import annotations

import os
import stat
from errno import ELOOP

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
MOUNTS = "/proc/self/mountinfo"
FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY


class UnusableFileError(ValueError):
    """Not a plain file, too large, or not its owner's."""


def read_bounded(
    path: str, max_bytes: int, *, owner: int | None = None, dir_fd: int | None = None
) -> bytes:
    """Bytes of a regular file. Raises UnusableFileError (also for links) or OSError.

    A FIFO or a device is opened without blocking and refused; nothing past `max_bytes` is read.
    """
    try:
        fd = os.open(path, _READ, dir_fd=dir_fd)
    except OSError as error:
        if error.errno == ELOOP:
            raise UnusableFileError("is a symbolic link") from None
        raise
    try:
        return _checked_read(fd, max_bytes, owner)
    finally:
        os.close(fd)


def _checked_read(fd: int, max_bytes: int, owner: int | None) -> bytes:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise UnusableFileError("is not a regular file")
    if owner is not None and status.st_uid != owner:
        raise UnusableFileError(f"belongs to uid {status.st_uid}, not {owner}")
    if status.st_size > max_bytes:
        raise UnusableFileError(f"has {status.st_size} bytes, at most {max_bytes} are read")
    chunks = []
    left = max_bytes + 1  # it may grow while it is read
    while left > 0:
        chunk = os.read(fd, min(left, 1 << 20))
        if not chunk:
            break
        chunks.append(chunk)
        left -= len(chunk)
    if left <= 0:
        raise UnusableFileError(f"has more than {max_bytes} bytes")
    return b"".join(chunks)


def write_whole(
    path: str, data: bytes, *, durable: bool = True, name_too: bool = True, mode: int = 0o600
) -> None:
    """Put `data` at `path` by an atomic rename; on any error nothing is left behind.

    `durable` also waits until the content is on the disk and, if `name_too`, the folder's entry.
    """
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.tmp")
    try:
        fd = os.open(temporary, _WRITE, mode)
    except FileExistsError:  # of a process that was killed and had our pid: containers, reboots
        os.unlink(temporary)
        fd = os.open(temporary, _WRITE, mode)
    try:
        _write_all(fd, data, durable=durable)
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    if durable and name_too:
        sync_folder(folder)


def _write_all(fd: int, data: bytes, *, durable: bool) -> None:
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)


def sync_folder(path: str) -> None:
    """Wait until the folder's entries are on the disk; a site may have laid a link to it."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def unlink_quietly(path: str) -> None:
    """Remove a file if it exists and can be removed."""
    try:
        os.unlink(path)
    except OSError:
        pass


def has_user_mounts(path: str) -> bool:
    """True if FUSE is mounted at `path` or below: there a user's program answers, when it likes.

    Users may mount it on their own folders; an `open` of root's there may never return.
    """
    place = path.encode("utf-8", "surrogateescape").replace(b" ", b"\\040")
    try:
        with open(MOUNTS, "rb") as file:
            lines = [line for line in file if line.partition(b" - ")[2].startswith(b"fuse")]
    except OSError:
        return False
    points = [line.split(b" ", 5)[4] for line in lines]
    return any(point == place or point.startswith(place + b"/") for point in points)
