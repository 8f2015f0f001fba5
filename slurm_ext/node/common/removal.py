"""Removal of folders that users fill: no recursion, two open folders, and an end by the clock.

A folder below is emptied one level deep: its files go, its folders are moved up beside it. So the
depth of a tree costs no memory, and what a call leaves is where the next one begins.
"""

from __future__ import annotations

import os
import time

from slurm_ext.node.common.files import FOLDER, has_user_mounts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Keep = Callable[[os.DirEntry[str]], bool]
    Drop = Callable[..., None]  # as os.unlink: (name, dir_fd=folder)


def remove_tree(name: str, parent: str, deadline: float) -> bool:
    """Remove `parent/name`, a user's folder, without leaving it; True if it is all gone.

    Works on descriptors, so that links and renames under way lead nowhere, and not beyond a mount;
    stops at `deadline` (monotonic), and the next call goes on.
    """
    if has_user_mounts(f"{parent}/{name}"):
        return False
    try:
        above = os.open(parent, FOLDER)
    except OSError:
        return False
    try:
        folder = os.open(name, FOLDER, dir_fd=above)
        try:
            return clear(folder, deadline) and _attempt(os.rmdir, name, above)
        finally:
            os.close(folder)
    except OSError:
        return False
    finally:
        os.close(above)


def clear(folder: int, deadline: float, keep: Keep | None = None, drop: Drop = os.unlink) -> bool:
    """Remove what is in an open folder, except what `keep` says; True if nothing else is left.

    `drop` removes a file, or raises OSError for one that has to stay for now.
    """
    take_over(folder)
    while True:
        gone = left = 0
        with os.scandir(folder) as entries:
            for entry in entries:
                if time.monotonic() > deadline:
                    return False
                if keep is None or not keep(entry):
                    removed = _remove(folder, entry, deadline, drop)
                    gone, left = gone + removed, left + (not removed)
        if not gone:
            return not left


def take_over(folder: int) -> None:
    """Make an open folder root's, so that its user puts nothing more into it."""
    if os.geteuid() == 0:
        os.fchown(folder, 0, 0)


def _remove(folder: int, entry: os.DirEntry[str], deadline: float, drop: Drop) -> bool:
    if not entry.is_dir(follow_symlinks=False):
        return _attempt(drop, entry.name, folder)
    if _attempt(os.rmdir, entry.name, folder):
        return True
    try:
        below = os.open(entry.name, FOLDER, dir_fd=folder)
    except OSError:
        return False
    try:
        if os.fstat(below).st_dev == os.fstat(folder).st_dev:
            _flatten(below, folder, deadline, drop)
    finally:
        os.close(below)
    return _attempt(os.rmdir, entry.name, folder)


def _flatten(below: int, folder: int, deadline: float, drop: Drop) -> None:
    """Remove the files of the folder `below`; its own folders are moved to `folder`."""
    take_over(below)
    with os.scandir(below) as entries:
        for entry in entries:
            if time.monotonic() > deadline:
                return
            if not entry.is_dir(follow_symlinks=False):
                _attempt(drop, entry.name, below)
                continue
            try:
                os.rename(entry.name, new_name(), src_dir_fd=below, dst_dir_fd=folder)
            except OSError:
                continue  # a mount, or gone meanwhile


def new_name() -> str:
    """A name that nobody else has or foresees."""
    return "." + os.urandom(12).hex()


def _attempt(act: Callable[..., None], name: str, dir_fd: int) -> bool:
    try:
        act(name, dir_fd=dir_fd)
    except OSError:
        return False
    return True
