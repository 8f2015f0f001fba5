"""Writes a model to its folder, whole or not at all, and points `current` to it."""

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import TypeVar

from slurm_ext.core.errors import ModelError
from slurm_ext.core.files import replace_file, sync_folder
from slurm_ext.core.ownership import chown_to_parent, make_folder
from slurm_ext.model.artifact_store import current

KEPT = 5  # earlier models; a reader of the oldest has finished long before it is removed
STALE_S = 86400.0  # older drafts were left by a training that was killed
_DRAFT = ".draft-"

Check = Callable[[Path], object]
"""Reads a folder; raises ModelError if it does not hold the intended model."""


Loaded = TypeVar("Loaded")


def serving_model(models: Path, load: Callable[[Path], Loaded]) -> Loaded | None:
    """Load the model that serves from `models`; None if there is none or it is damaged."""
    folder = current(models)
    try:
        return None if folder is None else load(folder)
    except ModelError:
        return None  # damaged: any model that beats the baselines replaces it


def promote(models: Path, kind: str, files: Mapping[str, bytes], check: Check) -> str:
    """Let `files` serve from `models/current`. Returns the model's name, a hash of its content.

    Raises ModelError if `check` refuses what was written, or it cannot be written: the earlier
    model then goes on serving. The newest KEPT earlier models stay beside it.
    """
    digest = hashlib.sha256(b"".join(data for _, data in sorted(files.items())))
    name = f"{kind}-{digest.hexdigest()[:12]}"
    install(models, name, files, check)
    _forget(models, kind, name)
    return name


def install(
    models: Path, name: str, files: Mapping[str, bytes], check: Check = lambda _: None
) -> None:
    """Write `models/NAME` whole or not at all, and point `models/current` to it.

    A model is never overwritten, except a damaged one. Raises ModelError.
    """
    try:
        make_folder(models, mode=0o755)
        if not _whole(models / name, check):
            _write(models / name, files, check)
        point(models / "current", name)
        sync_folder(models)
    except OSError as error:
        raise ModelError(f"{models}: cannot be written: {error.strerror}") from None


def _whole(folder: Path, check: Check) -> bool:
    """True if the model is there; removes a damaged one."""
    try:
        if folder.is_dir():
            check(folder)
            return True
    except ModelError:
        shutil.rmtree(folder)
    return False


def _write(folder: Path, files: Mapping[str, bytes], check: Check) -> None:
    draft = Path(mkdtemp(prefix=_DRAFT, dir=folder.parent))
    try:
        for name, data in files.items():
            replace_file(draft / name, data)
            (draft / name).chmod(0o644)  # the advisor is another user; weights are public
        draft.chmod(0o755)
        for path in (draft, *draft.iterdir()):
            chown_to_parent(path)
        check(draft)
        sync_folder(draft)
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def point(link: Path, name: str) -> None:
    """Point `link` to `name` in one step: readers see the old folder or the new one, never none."""
    fresh = link.with_name(f".{link.name}-{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(name)
    chown_to_parent(fresh)
    fresh.replace(link)


def _forget(models: Path, kind: str, serving: str) -> None:
    """Remove all but the newest earlier models, and drafts of trainings that were killed."""
    earlier = [path for path in models.glob(f"{kind}-*") if path.name != serving]
    drafts = models.glob(f"{_DRAFT}*")
    stale = [path for path in drafts if time.time() - _modified_s(path) > STALE_S]
    for folder in sorted(earlier, key=_modified_s)[:-KEPT] + stale:
        shutil.rmtree(folder, ignore_errors=True)


def _modified_s(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0  # another training has just removed it
