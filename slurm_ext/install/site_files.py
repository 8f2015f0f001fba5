"""Files of a site: real paths below a root, and their content."""

import grp
import os
import pwd
import stat
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from slurm_ext.core.errors import InputError
from slurm_ext.install.links import pinned, resolve

MOST_BYTES = 16 << 20  # of one file: no configuration is larger
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # links are resolved by then


@dataclass(frozen=True, slots=True)
class FileContent:
    """One file: its bytes, permission bits and owner (-1: the process that writes it)."""

    data: bytes
    mode: int = 0o644
    uid: int = -1
    gid: int = -1

    @property
    def text(self) -> str:
        """Bytes as text; bytes that are not UTF-8 survive a round trip (`encoded`)."""
        return self.data.decode("utf-8", "surrogateescape")

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes."""
        return sha256(self.data).hexdigest()


def encoded(text: str) -> bytes:
    """The bytes of `FileContent.text`."""
    return text.encode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class InstallRoot:
    """A site's paths as it names them itself: `etc` is dlqueue's folder.

    `root` stands before every path: `/` on a live machine, a folder for an image.
    """

    root: Path
    etc: Path
    slurm_conf: Path
    units: Path = Path("/etc/systemd/system")

    @property
    def unit(self) -> Path:
        """Path of the advisor's systemd unit."""
        return self.units / "dlqueue.service"

    def real(self, path: Path) -> Path:
        """Resolve `path` and its links. Raises InputError if they lead out of `root`.

        A link that another user may have laid there is an InputError, too.
        """
        below = self.root.absolute() / path.relative_to("/")
        real = resolve(below)
        if not real.is_relative_to(resolve(self.root.absolute())):
            raise InputError(str(below), f"leads out of {self.root}, to {real}")
        return real

    def read(self, path: Path) -> FileContent | None:
        """Read a file; None if there is none. Raises InputError."""
        real = self.real(path)
        try:
            with pinned(real) as path_now:
                file = os.open(path_now, _READ)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(str(real), f"cannot be read: {error.strerror}") from None
        info = os.fstat(file)
        if not stat.S_ISREG(info.st_mode) or info.st_size > MOST_BYTES:
            os.close(file)
            raise InputError(str(real), "is not a file of a sensible size")
        with os.fdopen(file, "rb") as stream:
            data = stream.read(MOST_BYTES)
        return FileContent(data, stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid)


def user_of(name: str) -> tuple[int, int, str] | None:
    """Uid, gid and group name of a user of this machine; None if there is none."""
    try:
        user = pwd.getpwnam(name)
        return user.pw_uid, user.pw_gid, grp.getgrgid(user.pw_gid).gr_name
    except KeyError:
        return None
