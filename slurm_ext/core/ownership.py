"""Give files that root creates to the owner of their folder.

The state folder belongs to the advisor's user. Loops, imports and trainings may run as root, and
the advisor has to read and change what they write.
"""

import errno
import os
import stat
from pathlib import Path

_APPEND = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def chown_to_parent(path: Path) -> None:
    """Give `path` (of a link, the link) to the owner of its folder, if this is root. OSError."""
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


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
    if os.geteuid() == 0:
        owner = path.parent.stat()
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
