"""What root makes among another user's files becomes that user's, who has to read and change it.

The state folder is the advisor's, which is not root; a loop, an import or a training may be.
"""

import errno
import os
import stat
from pathlib import Path

_APPEND = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def chown_to_parent(path: Path) -> None:
    """Where this is root: to the owner of the folder it is in; of a link, the link. OSError."""
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def appendable(path: Path, *, mode: int) -> int:
    """The descriptor of a plain file, to read and append; a new one is given away. OSError."""
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
    """A newline, where an earlier writer was cut off within a line: it must not join the next."""
    size = os.fstat(file).st_size
    return b"\n" if size and os.pread(file, 1, size - 1) != b"\n" else b""


def make_folder(path: Path, *, mode: int = 0o750) -> None:
    """A folder, and those above it that are not there; one that is there stays as it is. OSError.

    `mode` is exact, whatever the umask, and also that of the new ones above.
    """
    missing = [one for one in (path, *path.parents) if not one.exists()]
    for one in reversed(missing):
        try:
            one.mkdir()
        except FileExistsError:
            continue  # another process was faster; it gives it away as well
        one.chmod(mode)
        chown_to_parent(one)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
