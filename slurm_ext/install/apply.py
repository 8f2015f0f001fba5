"""Applies a plan, all or nothing. The files of before are saved before anything changes."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from slurm_ext.core.errors import InputError
from slurm_ext.core.files import replace_file, sync_folder, try_lock
from slurm_ext.core.ownership import open_folder
from slurm_ext.install import backups as keeping
from slurm_ext.install.backups import InstallRecord
from slurm_ext.install.links import pinned
from slurm_ext.install.plan import FileChange, InstallPlan
from slurm_ext.install.site_files import FileContent, InstallRoot, user_of

_PART = ".dlqueue-part"


def apply(plan: InstallPlan, place: InstallRoot, before: InstallRecord) -> None:
    """Make the plan's changes. Raises InputError, after it has put everything back."""
    with _alone(place):
        done = _Progress(place)
        try:
            _unchanged(plan, place)
            _apply(plan, place, before, done)
        except (OSError, InputError) as error:
            done.back(before)
            if isinstance(error, InputError):
                raise
            where = error.filename or place.etc
            why = f"{error.strerror or error}; everything is as it was before"
            if isinstance(error, PermissionError) and os.geteuid() != 0:
                why += ": only root can change a site's files (sudo dlqueue ...)"
            raise InputError(str(where), why) from None


def touch(place: InstallRoot, path: Path) -> None:
    """Set a file's date, so that slurmctld reads it again."""
    with suppress(FileNotFoundError):
        os.utime(place.real(path))


class _Progress:
    """Changes that were made so far, to take them back."""

    def __init__(self, place: InstallRoot) -> None:
        self.place = place
        self.folders: list[Path] = []
        self.links: dict[Path, Path] = {}
        self.changes: list[FileChange] = []

    def back(self, before: InstallRecord) -> None:
        """Put everything back, as far as possible."""
        for change in reversed(self.changes):
            with suppress(OSError):
                _put(self.place, change.path, change.now)
        for link in self.links:
            with suppress(OSError):
                _real_link(self.place, link).unlink()
        with suppress(OSError, InputError):
            _remember(self.place, before, self)
        _remove_folders(self.place, self.folders)


def _apply(plan: InstallPlan, place: InstallRoot, before: InstallRecord, done: _Progress) -> None:
    _folder(place, keeping.folder_of(place), 0o700, "", done)
    both = replace(plan.kept, files={**before.files, **plan.kept.files})
    _remember(place, both, done)
    for path, (mode, user) in plan.folders.items():
        _folder(place, path, mode, user, done)
    for link, target in plan.links.items():
        _link(place, link, target, done)
    for change in plan.real:
        _folder(place, change.path.parent, 0o755, "", done)
        done.changes.append(change)
        _put(place, change.path, change.then)
    made = tuple(dict.fromkeys([*before.folders, *done.folders]))
    _settle(
        plan, place, replace(plan.kept, folders=made, links={**before.links, **done.links}), done
    )


def _settle(plan: InstallPlan, place: InstallRoot, after: InstallRecord, done: _Progress) -> None:
    """Write the record of the installation; after the last step is gone, remove all traces."""
    if plan.steps or after.files:
        _remember(place, after, done)
        return
    for link, target in after.links.items():
        with suppress(OSError):
            if _real_link(place, link).readlink() == target:
                _real_link(place, link).unlink()
    shutil.rmtree(place.real(keeping.folder_of(place)), ignore_errors=True)
    _remove_folders(place, after.folders)


def _remember(place: InstallRoot, kept: InstallRecord, done: _Progress) -> None:
    """Write the backups, then their list; remove backups that the list no longer names."""
    folder = keeping.folder_of(place)
    if not kept.files and not kept.steps:
        if folder in done.folders:
            shutil.rmtree(place.real(folder), ignore_errors=True)
        return
    files = keeping.as_files(kept, place)
    for name, data in files.items():
        current = place.read(folder / name)
        if current is None or current.data != data:
            _put(place, folder / name, FileContent(data, 0o600))
    for old in place.real(folder).iterdir():
        if old.name not in files:
            old.unlink()


def _unchanged(plan: InstallPlan, place: InstallRoot) -> None:
    for change in plan.changes:
        if place.read(change.path) != change.now:
            raise InputError(
                str(change.path), "was changed by another program just now: run the command again"
            )


def _put(place: InstallRoot, path: Path, content: FileContent | None) -> None:
    """Replace, make or remove a file at once; its folder exists."""
    with pinned(place.real(path)) as real:
        if content is not None:
            part = real.with_name(f".{real.name}{_PART}")
            replace_file(real, content.data, part=part, prepare=partial(_as_owned, content))
            return
        real.unlink(missing_ok=True)
        sync_folder(real.parent)


def _as_owned(content: FileContent, file: int) -> None:
    owner = os.fstat(file)
    if content.uid >= 0 and (owner.st_uid, owner.st_gid) != (content.uid, content.gid):
        os.fchown(file, content.uid, content.gid)
    os.fchmod(file, content.mode)


def _folder(place: InstallRoot, path: Path, mode: int, user: str, done: _Progress) -> None:
    """Make a folder and its missing parents; one that exists is left alone."""
    real = place.real(path)
    if real.is_dir():
        return
    if path.parent != path:
        _folder(place, path.parent, 0o755, "", done)
    real.mkdir(mode=0o700)
    done.folders.append(path)
    owner = user_of(user) if user and os.geteuid() == 0 else None
    with open_folder(real) as folder:  # what was made, whatever has that name by then
        if os.fstat(folder).st_uid != os.geteuid():
            raise InputError(str(real), "was put there by another user just now")
        if owner is not None:
            os.fchown(folder, owner[0], owner[1])
        os.fchmod(folder, mode)


def _link(place: InstallRoot, link: Path, target: Path, done: _Progress) -> None:
    real = _real_link(place, link)
    if not real.is_symlink() and not real.exists():
        real.symlink_to(target)
        done.links[link] = target


def _real_link(place: InstallRoot, link: Path) -> Path:
    return place.real(link.parent) / link.name


def _remove_folders(place: InstallRoot, folders: list[Path] | tuple[Path, ...]) -> None:
    """Remove those that are empty, parents last."""
    for folder in sorted(folders, key=lambda path: -len(path.parts)):
        with suppress(OSError):
            place.real(folder).rmdir()


@contextmanager
def _alone(place: InstallRoot) -> Iterator[None]:
    """Keep other installations out. Raises InputError."""
    folder = place.real(place.slurm_conf).parent
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise InputError(str(folder), f"cannot be used: {error.strerror}") from None
    try:
        if not try_lock(lock):
            raise InputError(str(folder), "another `dlqueue install` is at work")
        yield
    finally:
        os.close(lock)
