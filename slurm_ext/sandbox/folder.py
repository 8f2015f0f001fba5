"""Folder of a sandbox: where it is by default, and that no other user can write into it.

Owner and mode are judged on an open descriptor. Nobody else can write into the folder or rename a
folder above it, so that its path leads to the same folder for as long as the sandbox is there.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir, mkdtemp

from slurm_ext.core.errors import SandboxError
from slurm_ext.core.ownership import make_folder

DEFAULT_NAME = "dlqueue-sandbox"
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def make_root(root: Path, mode: int) -> None:
    """Make the folder, or take one of this user's, with exactly `mode`. Raises SandboxError."""
    make_folder(root.parent, mode=0o755)
    with suppress(FileExistsError):
        root.mkdir(mode=0o700)
    folder = open_own(root)
    os.fchmod(folder, mode)
    os.close(folder)


def open_own(root: Path) -> int:
    """Open a folder into which only this user can write. Raises SandboxError."""
    try:
        folder = os.open(root, _OPEN)
    except FileNotFoundError:
        raise SandboxError(f"{root} is no sandbox: `dlqueue sandbox up` makes one") from None
    except OSError as error:
        raise SandboxError(f"{root} is no folder, so no sandbox: {error.strerror}") from None
    info = os.fstat(folder)
    if info.st_uid == os.geteuid() and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return folder
    os.close(folder)
    if info.st_uid != os.geteuid():
        raise SandboxError(f"{root} is another user's folder: choose another one with --root")
    raise SandboxError(f"{root} can be written by others: chmod go-w {root}, or choose another one")


def check_parents(root: Path, *, entered_by_others: bool) -> None:
    """Raise SandboxError if another user could rename a folder above `root`, or cannot enter it."""
    above = [*root.parents, *Path(os.path.realpath(root)).parents]
    for folder in filter(Path.exists, dict.fromkeys(above)):
        owner, mode = folder.lstat().st_uid, folder.stat().st_mode
        if owner not in (0, os.geteuid()):
            raise SandboxError(
                f"{folder} belongs to another user, who could put another folder in its place:"
                " choose a folder under /tmp, or one of your own"
            )
        if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
            raise SandboxError(
                f"{folder} can be written by others, and munge refuses a socket below such a"
                f" folder: chmod go-w {folder}, or choose one under /tmp"
            )
        if entered_by_others and not mode & stat.S_IXOTH:
            raise SandboxError(
                f"{folder} cannot be entered by others, and munge demands that of every"
                f" folder above its socket: chmod o+x {folder}, or choose one under /tmp"
            )


def default_root() -> Path | None:
    """This user's sandbox where no folder is named; None if there is none."""
    fixed = _in_runtime_folder()
    if fixed is not None:
        return fixed if _is_own(fixed) else None
    own = [path for path in Path(gettempdir()).glob(f"{DEFAULT_NAME}-*") if _is_own(path)]
    return max(own, key=lambda path: path.lstat().st_mtime_ns, default=None)


def new_default_root() -> Path:
    """Path for a new one: below $XDG_RUNTIME_DIR, else a fresh folder that nobody can foresee."""
    return _in_runtime_folder() or Path(mkdtemp(prefix=f"{DEFAULT_NAME}-"))


def _in_runtime_folder() -> Path | None:
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    return runtime / DEFAULT_NAME if runtime.is_absolute() and _is_own(runtime) else None


def _is_own(folder: Path) -> bool:
    with suppress(SandboxError):
        os.close(open_own(folder))
        return True
    return False
