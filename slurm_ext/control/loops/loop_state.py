"""Folder of one loop: its lock, `undo.json` to put its changes back, and `status.json`.

Earlier versions called `undo.json` `kept.json`. That file is still read, and it is removed when the
loop writes its own.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from slurm_ext.core.errors import InputError
from slurm_ext.core.files import replace_file, try_lock
from slurm_ext.core.ownership import chown_to_parent, make_folder
from slurm_ext.node.common.files import read_bounded

VERSION = 1
UNDO, OLD_UNDO, STATUS = "undo.json", "kept.json", "status.json"
MAX_BYTES = 1 << 26
_LOCK = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
T = TypeVar("T")


class LoopState:
    """State of one loop at `path`, used by one process at a time. Each method may raise OSError.

    `command`: the loop's command, for messages. `writes`: False for a dry run, which leaves no
    trace. `durable`: False where a reboot undoes the changes by itself. `shared`: files that root
    writes belong to the owner of the state folder, so that the advisor can read them.
    """

    def __init__(
        self,
        path: Path,
        command: str,
        *,
        writes: bool = True,
        durable: bool = True,
        shared: bool = True,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        self.path, self.command, self.writes = path, command, writes
        self.status: dict[str, Any] = {}  # as written last by this process
        self._durable, self._shared, self._prepare = durable, shared, prepare

    def lock(self) -> int:
        """Return a descriptor that holds the lock until it is closed. Raises InputError."""
        self._prepare()
        make_folder(self.path, mode=0o700)
        self._share(self.path)
        lock = os.open(self.path / "lock", _LOCK, 0o600)
        if not try_lock(lock):
            os.close(lock)
            raise InputError(str(self.path), f"another `{self.command}` works")
        self._share(self.path / "lock")
        return lock

    def keep(self, changes: Mapping[str, Any]) -> None:
        """Replace what undoes the changes. Call it before a change is made."""
        if self.writes:
            self._write(UNDO, {"v": VERSION, "kept": changes}, durable=self._durable)
            (self.path / OLD_UNDO).unlink(missing_ok=True)

    def load(self, build: Callable[[dict[str, Any]], T]) -> T:
        """Return `build` of what `keep` was given last, of {} if there is nothing.

        Raises InputError if the file is damaged: half an undo is worse than a message.
        """
        return self._read(self._undo_file(), lambda body: build(_kept(body)), lambda: build({}))

    def forget(self) -> None:
        """Remove what undoes the changes: everything is put back."""
        for name in (UNDO, OLD_UNDO):
            (self.path / name).unlink(missing_ok=True)

    def write_status(self, status: Mapping[str, Any]) -> None:
        """Replace what `dlqueue control status` shows."""
        self.status = dict(status)
        if self.writes:
            self._write(STATUS, status, durable=False)

    def read_status(self, *required: str) -> dict[str, Any] | None:
        """Return the last status, with these keys at least; None if no loop runs. InputError."""
        return self._read(STATUS, partial(_with, required), lambda: None)

    def remove_status(self) -> None:
        """Remove the status: no loop runs."""
        (self.path / STATUS).unlink(missing_ok=True)

    def _undo_file(self) -> str:
        """`keep` removes the old file, so if it is there an older version wrote it last."""
        return OLD_UNDO if (self.path / OLD_UNDO).exists() else UNDO

    def _write(self, name: str, body: Mapping[str, Any], *, durable: bool) -> None:
        replace_file(self.path / name, json.dumps(body).encode(), mode=0o600, durable=durable)
        self._share(self.path / name)

    def _share(self, path: Path) -> None:
        if self._shared:
            chown_to_parent(path)

    def _read(self, name: str, build: Callable[[Any], T], nothing: Callable[[], T]) -> T:
        path = self.path / name
        try:
            return build(json.loads(read_bounded(str(path), MAX_BYTES)))
        except FileNotFoundError:
            return nothing()
        except OSError as error:
            raise InputError(str(path), f"cannot be read: {error.strerror}") from None
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise InputError(str(path), f"cannot be used: {error!r}; remove it") from None


def cluster_state(state_dir: Path, kind: str, *, writes: bool = True) -> LoopState:
    """State of the queue, elastic or energy loop: `<state_dir>/control/<kind>`."""
    return LoopState(state_dir / "control" / kind, f"dlqueue control --{kind}", writes=writes)


def _kept(body: Any) -> dict[str, Any]:
    """The changes in the file; allocator and co-scheduling once wrote theirs without a frame."""
    if body.get("v", VERSION) != VERSION:
        raise ValueError(f"version {body['v']!r}, expected {VERSION}")
    bare = "leases" in body or "boot_id" in body
    return dict(body if bare else body["kept"])


def _with(required: Iterable[str], body: Any) -> dict[str, Any]:
    """The object; KeyError where it lacks one of these keys."""
    return {name: body[name] for name in required} | dict(body)
