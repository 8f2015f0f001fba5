"""The folder of one loop: held by one process at a time, with what it puts back and what it tells.

`kept.json` is what the loop needs to undo its changes, `status.json` what `status` shows.
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

MAX_BYTES = 1 << 26
_LOCK = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
T = TypeVar("T")


class KeptFolder:
    """At `path`; `command` is whose it is. All of it may raise OSError."""

    given = True  # what root writes is the state folder's owner's

    def __init__(self, path: Path, command: str) -> None:
        self.path, self._command = path, command

    def lock(self) -> int:
        """The right to be this loop, until the process ends. Raises InputError."""
        self._prepare()
        self._give(self.path)
        held = os.open(self.path / "lock", _LOCK, 0o600)
        if not try_lock(held):
            os.close(held)
            raise InputError(str(self.path), f"another `{self._command}` works")
        self._give(self.path / "lock")
        return held

    def tell(self, status: Mapping[str, Any]) -> None:
        """What `status` shows from now on."""
        self._write("status.json", status, durable=False)

    def told(self, *needed: str) -> dict[str, Any] | None:
        """The last status, with these keys at least; None: nobody works. Raises InputError."""
        return self._read("status.json", partial(_with, needed), lambda: None)

    def silent(self) -> None:
        """No status any more."""
        (self.path / "status.json").unlink(missing_ok=True)

    def _prepare(self) -> None:
        make_folder(self.path, mode=0o700)

    def _keep(self, body: Mapping[str, Any]) -> None:
        """Replace it, whole, and on the disk before this returns: it is what is put back."""
        self._write("kept.json", body, durable=True)

    def _kept(self, build: Callable[[Any], T], nothing: Callable[[], T]) -> T:
        """`build` of what was kept last, `nothing` where nothing was. Raises InputError."""
        return self._read("kept.json", build, nothing)

    def _write(self, name: str, body: Mapping[str, Any], *, durable: bool) -> None:
        replace_file(self.path / name, json.dumps(body).encode(), mode=0o600, durable=durable)
        self._give(self.path / name)

    def _give(self, path: Path) -> None:
        if self.given:
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


def _with(needed: Iterable[str], body: Any) -> dict[str, Any]:
    """The object; KeyError where it lacks one of these keys."""
    return {name: body[name] for name in needed} | dict(body)
