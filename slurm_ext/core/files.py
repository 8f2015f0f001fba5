"""Durable writes, locks and versions of files that other processes read meanwhile.

The node's hooks have node/common/files.py: they have no time to import this package.
"""

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


def replace_file(
    path: Path,
    data: bytes,
    *,
    mode: int = 0o666,
    durable: bool = True,
    part: Path | None = None,
    prepare: Callable[[int], None] = lambda _: None,
) -> None:
    """Put `data` at `path` by a rename: readers find the old file or the new one. Raises OSError.

    `durable` waits until the new one is on the disk. `prepare` is given the descriptor, to set its
    owner or a mode that the umask does not narrow. An error leaves nothing behind; a power cut may
    leave `part`, which the next call with the same name replaces.
    """
    part = part or path.with_name(f".{path.name}.{token_hex(4)}.part")
    try:
        _write(part, data, mode, durable, prepare)
        part.replace(path)
    except BaseException as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = error.filename or str(path)  # a full disk's error names none
        raise
    if durable:
        sync_folder(path.parent)


def _write(
    part: Path, data: bytes, mode: int, durable: bool, prepare: Callable[[int], None]
) -> None:
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, _NEW, mode), "wb") as stream:
        stream.write(data)
        stream.flush()
        prepare(stream.fileno())
        if durable:
            os.fsync(stream.fileno())


def write_new(path: Path, data: bytes, *, mode: int) -> None:
    """Write a file that is not there yet, with exactly `mode` from its first byte. Raises OSError.

    A link or a file that somebody laid there is an error: what is written may be a secret.
    """
    with os.fdopen(os.open(path, _NEW, mode & 0o600), "wb") as stream:
        stream.write(data)
        os.fchmod(stream.fileno(), mode)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk. Raises OSError."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def try_lock(file: int) -> bool:
    """Lock an open file or folder until it is closed. False where another process holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def file_id(path: Path) -> tuple[int, int] | None:
    """Device and inode of a file, the same while it is written to; None without a file."""
    info = _stat(path)
    return None if info is None else (info.st_dev, info.st_ino)


def file_version(path: Path | str, *, follow: bool = True) -> tuple[int, int, int] | None:
    """Inode, time and size, which change when a file is replaced or written to; None without one.

    An inode's number alone may come again. `follow` False: of a link, the link itself.
    """
    info = _stat(path, follow=follow)
    return None if info is None else (info.st_ino, info.st_mtime_ns, info.st_size)


def _stat(path: Path | str, *, follow: bool = True) -> os.stat_result | None:
    try:
        return os.stat(path, follow_symlinks=follow)  # noqa: PTH116 (of a record's name, no Path)
    except (FileNotFoundError, NotADirectoryError):
        return None
