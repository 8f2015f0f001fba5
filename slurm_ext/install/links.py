"""Links on the way to a site's files: those of other users are not followed.

slurm.conf's folder may belong to SlurmUser, while root installs: whoever can lay a link there would
choose which file root reads and replaces.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slurm_ext.core.errors import InputError

_PATH = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = _PATH | os.O_DIRECTORY
_MOST_STEPS = 400  # names and links on the way


def resolve(path: Path) -> Path:
    """Return an absolute path without links, as os.path.realpath; what is missing may be missing.

    Raises InputError for a link that belongs to neither root nor this user, and for a circle.
    """
    names, done, folder = list(path.parts), Path("/"), os.open("/", _PATH)
    try:
        for _ in range(_MOST_STEPS):
            if not names:
                return done
            name = names.pop(0)
            try:
                entry = os.open(name, _PATH, dir_fd=folder)
            except (FileNotFoundError, NotADirectoryError):
                return Path(os.path.normpath(done.joinpath(name, *names)))
            target = _target(entry, done / name)
            if target is not None:
                os.close(entry)
                names[:0] = target.parts
                continue
            os.close(folder)
            folder, done = entry, done.parent if name == ".." else done / name
    except OSError as error:
        raise InputError(str(done), f"cannot be entered: {error.strerror}") from None
    finally:
        os.close(folder)
    raise InputError(str(path), "leads through too many links")


def _target(entry: int, path: Path) -> Path | None:
    """Read the target of an open link; None for what is no link. Raises InputError, OSError."""
    info = os.fstat(entry)
    if not stat.S_ISLNK(info.st_mode):
        return None
    if info.st_uid not in (0, os.geteuid()):
        os.close(entry)
        why = f"is a link of another user (uid {info.st_uid}): put the file itself there"
        raise InputError(str(path), why)
    return Path(os.readlink("", dir_fd=entry))


@contextmanager
def pinned(path: Path) -> Iterator[Path]:
    """Give a path to the same name that no folder put in another's place can turn elsewhere.

    `path` has no links (`resolve`), and its folder exists. Raises OSError naming `path`: a link
    that came since is ENOTDIR.
    """
    folder = os.open("/", _FOLDER)
    try:
        for name in path.parts[1:-1]:
            below = os.open(name, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = below
        yield Path(f"/proc/self/fd/{folder}", path.name)
    except OSError as error:
        raise OSError(error.errno or errno.EIO, error.strerror, str(path)) from None
    finally:
        os.close(folder)
