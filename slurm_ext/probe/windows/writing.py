"""Files of a profile run: what Python writes lands in the run's own folder, what it removes stays.

The working directory is the user's, so that a script finds its data and modules. A path that is
opened for writing leads into the run's folder instead, where it is found again by whoever reads it
in the same process. Removing, renaming or dating what was there before is counted and not done.
What a library writes in C (HDF5, SQLite) does not come by here.
"""

from __future__ import annotations

import builtins
import collections
import contextlib
import errno
import functools
import io
import os
import pathlib
import shutil
import tempfile
from typing import Any, Callable, Counter

_CACHES = ("HF_HOME", "TORCH_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "XDG_CACHE_HOME")
_SYSTEM = ("/dev", "/proc", "/sys")
_WRITES = frozenset("wax+")
_HOME_CACHES = ("~/.cache", "~/.triton", "~/.nv")
MOST_KEPT = 64 << 20  # bytes of a file that is copied to be changed
_TOO_LARGE = (
    "dlqueue profile copies no file of this size to have it changed:"
    " open it for reading alone (numpy.memmap: mode='r')"
)


class OwnFolder:
    """The run's folder as a place for everything that would be written elsewhere."""

    def __init__(self, run_dir: str) -> None:
        self.root = os.path.join(run_dir, "written")
        self.counts: Counter[str] = collections.Counter()
        self.moved: set[str] = set()
        self._made: list[str] = []
        self._free = (run_dir, *_SYSTEM, *_caches(), *_temporary())

    def is_free(self, path: str) -> bool:
        """True where a run may write: its own folder, caches, devices, the temporary folder."""
        return any(path == one or path.startswith(one + os.sep) for one in self._free)

    def place(self, path: str) -> str:
        """Path of such a file in the run's folder."""
        return os.path.join(self.root, path.lstrip(os.sep))

    def to_write(self, path: str, keep: bool) -> str:
        """The path to write to instead; `keep`: with what the file holds."""
        if self.is_free(path) or (os.path.exists(path) and not os.path.isfile(path)):
            return path
        if path not in self.moved:
            self._move(path, keep)
            self.counts["written"] += 1
        return self.place(path)

    def _move(self, path: str, keep: bool) -> None:
        keep = keep and os.path.exists(path)
        if keep and os.path.getsize(path) > MOST_KEPT:
            raise OSError(errno.EFBIG, _TOO_LARGE, path)
        instead = self.place(path)
        os.makedirs(os.path.dirname(instead), exist_ok=True)
        if keep and not os.path.exists(instead):
            _copy(path, instead)
        self.moved.add(path)

    def stand_in(self, path: Any) -> None:
        """An empty file for one that was not saved, so that copying or moving it goes on."""
        named = _absolute(path)
        if not self.is_free(named) and not os.path.isdir(named):
            if named not in self.moved:
                self._move(named, keep=False)
            with open(self.place(named), "ab"):
                pass

    def to_read(self, path: str) -> str:
        """The path that holds what this run wrote, or the file itself."""
        return self.place(path) if path in self.moved else path

    def is_kept(self, path: str) -> bool:
        """True for what was there before the run: it is not to be removed or renamed."""
        if self.is_free(path) or path in self.moved:
            return False
        return not any((path + os.sep).startswith(one + os.sep) for one in self._made)

    def made(self, path: str) -> None:
        """Note a folder that the run made outside of its own."""
        if not self.is_free(path):
            self._made.append(path)

    def tidy(self) -> None:
        """Remove folders that the run made and left empty, the latest first."""
        for path in reversed(self._made):
            with contextlib.suppress(OSError):
                os.rmdir(path)


def _copy(path: str, instead: str) -> None:
    """Copy a file; a copy that another process of the run made meanwhile, and may use, stays."""
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(instead)) as whole:
        shutil.copyfile(path, whole.name)
        with contextlib.suppress(FileExistsError):
            os.link(whole.name, instead)


def _caches() -> list[str]:
    named = [os.environ[name] for name in _CACHES if os.environ.get(name)]
    return [os.path.abspath(os.path.expanduser(path)) for path in (*named, *_HOME_CACHES)]


def _temporary() -> list[str]:
    """The temporary folder, unless the training itself is in it."""
    folder = os.path.abspath(tempfile.gettempdir())
    return [] if (os.getcwd() + os.sep).startswith(folder + os.sep) else [folder]


def _absolute(path: Any, dir_fd: Any = None) -> str:
    text = os.fsdecode(path)
    if dir_fd is not None:
        text = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), text)
    return os.path.abspath(text)


def guard(folder: OwnFolder) -> None:
    """Replace the functions by which Python writes, removes and renames files."""
    guarded = {io.open: _opening(io.open, folder)}
    builtins.open = io.open = guarded[io.open]
    for wrap, names in _GUARDS.items():
        for name in names:
            original = getattr(os, name)
            guarded[original] = wrap(original, folder)
            setattr(os, name, guarded[original])
    _guard_pathlib(guarded)


def _guard_pathlib(guarded: dict[Any, Any]) -> None:
    """Replace the functions that a class of pathlib took at its import, before Python 3.11."""
    accessor: Any = getattr(pathlib, "_NormalAccessor", None)
    for name, original in list(vars(accessor).items()) if accessor else ():
        if original in guarded:
            setattr(accessor, name, staticmethod(guarded[original]))


def _opening(original: Callable[..., Any], folder: OwnFolder) -> Any:
    @functools.wraps(original)
    def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        writes = isinstance(mode, str) and bool(_WRITES.intersection(mode))
        if (writes or folder.moved) and not isinstance(file, int):
            path = _absolute(file)
            instead = folder.to_write(path, "w" not in mode) if writes else folder.to_read(path)
            if instead != path:
                file = instead
                kwargs.pop("opener", None)  # pathlib's opens its own path, whatever it is given
        return original(file, mode, *args, **kwargs)

    return opened


def _opening_low(original: Callable[..., int], folder: OwnFolder) -> Any:
    writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

    @functools.wraps(original)
    def opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: Any = None) -> int:
        if flags & writes:
            instead = folder.to_write(_absolute(path, dir_fd), keep=not flags & os.O_TRUNC)
            return original(instead, flags, mode)
        return original(path, flags, mode, dir_fd=dir_fd)

    return opened


def _reading(original: Callable[..., Any], folder: OwnFolder) -> Any:
    @functools.wraps(original)
    def read(path: Any, *args: Any, **kwargs: Any) -> Any:
        if folder.moved and not isinstance(path, int) and not kwargs.get("dir_fd"):
            named = _absolute(path)
            path = folder.place(named) if named in folder.moved else path
        return original(path, *args, **kwargs)

    return read


def _making(original: Callable[..., None], folder: OwnFolder) -> Any:
    @functools.wraps(original)
    def mkdir(path: Any, *args: Any, **kwargs: Any) -> None:
        original(path, *args, **kwargs)
        folder.made(_absolute(path, kwargs.get("dir_fd")))

    return mkdir


def _keeping(original: Callable[..., Any], folder: OwnFolder) -> Any:
    @functools.wraps(original)
    def keep(path: Any, *args: Any, **kwargs: Any) -> Any:
        named = "" if isinstance(path, int) else _absolute(path, kwargs.get("dir_fd"))
        if not os.path.lexists(folder.to_read(named)):
            return original(path, *args, **kwargs)
        if folder.is_kept(named):
            folder.counts["spared"] += 1
            return None
        return original(folder.to_read(named), *args, **{**kwargs, **_no_fd(kwargs)})

    return keep


def _moving(original: Callable[..., Any], folder: OwnFolder) -> Any:
    @functools.wraps(original)
    def move(src: Any, dst: Any, *, src_dir_fd: Any = None, dst_dir_fd: Any = None) -> None:
        source, target = _absolute(src, src_dir_fd), _absolute(dst, dst_dir_fd)
        if folder.is_kept(source) and os.path.lexists(source):
            folder.counts["spared"] += 1
            return
        original(folder.to_read(source), folder.to_write(target, keep=False))

    return move


def _linking(original: Callable[..., None], folder: OwnFolder) -> Any:
    @functools.wraps(original)
    def link(src: Any, dst: Any, *args: Any, **kwargs: Any) -> None:
        if folder.is_kept(_absolute(dst, kwargs.get("dst_dir_fd", kwargs.get("dir_fd")))):
            folder.counts["written"] += 1
        else:
            original(src, dst, *args, **kwargs)

    return link


def _no_fd(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {"dir_fd": None} if "dir_fd" in kwargs else {}


_GUARDS: dict[Callable[..., Any], tuple[str, ...]] = {
    _opening_low: ("open",),
    _making: ("mkdir",),
    _keeping: ("remove", "unlink", "rmdir", "truncate", "chmod", "utime"),
    _reading: ("stat", "lstat", "access"),
    _linking: ("link", "symlink"),
    _moving: ("rename", "replace"),
}
