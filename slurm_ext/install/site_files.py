"""Where a site's files are: real paths below a root, and what lies there."""

import grp
import os
import pwd
import stat
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from slurm_ext.core.errors import InputError

MOST_BYTES = 16 << 20  # of one file: no configuration is larger


@dataclass(frozen=True, slots=True)
class FileContent:
    """One file: its bytes, permission bits and owner (-1: whoever makes it)."""

    data: bytes
    mode: int = 0o644
    uid: int = -1
    gid: int = -1

    @property
    def text(self) -> str:
        """The bytes as text; what is not UTF-8 comes back as it was (`encoded`)."""
        return self.data.decode("utf-8", "surrogateescape")

    @property
    def digest(self) -> str:
        """What the bytes are known by."""
        return sha256(self.data).hexdigest()


def encoded(text: str) -> bytes:
    """The bytes of `FileContent.text`."""
    return text.encode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class InstallRoot:
    """A site: `etc` is dlqueue's folder, both paths as the site itself names them.

    `root` stands before every path: `/` on a live machine, a folder for an image that is built.
    """

    root: Path
    etc: Path
    slurm_conf: Path
    units: Path = Path("/etc/systemd/system")

    @property
    def unit(self) -> Path:
        """The advisor's systemd unit."""
        return self.units / "dlqueue.service"

    def real(self, path: Path) -> Path:
        """The file behind `path`, links followed. Raises InputError where they lead out of root."""
        below = self.root / path.relative_to("/")
        real = Path(os.path.realpath(below))
        if not real.is_relative_to(os.path.realpath(self.root)):
            raise InputError(str(below), f"leads out of {self.root}, to {real}")
        return real

    def read(self, path: Path) -> FileContent | None:
        """What is there; None where nothing is. Raises InputError."""
        real = self.real(path)
        try:
            found = real.stat()
            if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
                raise InputError(str(real), "is not a file of a sensible size")
            return FileContent(
                real.read_bytes(), stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid
            )
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(str(real), f"cannot be read: {error.strerror}") from None


def user_of(name: str) -> tuple[int, int, str] | None:
    """Uid, gid and group's name of a user of this machine."""
    try:
        known = pwd.getpwnam(name)
        return known.pw_uid, known.pw_gid, grp.getgrgid(known.pw_gid).gr_name
    except KeyError:
        return None
