"""The verdict on a challenger, and how it comes to serve."""

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from slurm_ext.core.errors import ModelError
from slurm_ext.core.files import replace_file, sync_folder
from slurm_ext.core.ownership import chown_to_parent, make_folder

BETTER = 0.99  # of the incumbent's error: a smaller gain is chance
COVERAGE = (0.8, 1.0)
KEPT = 5  # earlier models: whoever found one serving has long read it when the sixth is there
STALE_S = 86400.0  # after which a draft is what a training left that was killed
_DRAFT = ".draft-"

Check = Callable[[Path], object]
"""Reads a folder; raises ModelError where it is not what was meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingVerdict:
    """What came of one training: what serves from now on, or why nothing does.

    `runs` it learnt from, `window_s` the time that they span (Unix), `scores` by who was scored.
    """

    promoted: bool
    why: str
    runs: int
    model: str | None = None
    window_s: tuple[float, float] | None = None
    scores: dict[str, Any] | None = None


def promotion_veto(
    ours: Mapping[str, Any], naive: Mapping[str, Any], incumbent: Mapping[str, Any] | None
) -> str | None:
    """Why the challenger should not serve; None: it should."""
    if ours["mae"] >= naive["mae"]:
        return f"its error {ours['mae']:.3f} is not below the naive median's {naive['mae']:.3f}"
    if not COVERAGE[0] <= ours["coverage90"] <= COVERAGE[1]:
        return f"its 90 % interval holds {ours['coverage90']:.0%} of later runs"
    if incumbent is not None and ours["mae"] > BETTER * incumbent["mae"]:
        return f"its error {ours['mae']:.3f} is not below the serving {incumbent['mae']:.3f}"
    return None


def promote(models: Path, kind: str, files: Mapping[str, bytes], check: Check) -> str:
    """Let `files` serve from `models/current`; the model's name, which is its content's.

    Raises ModelError where `check` finds that what was written is not what was meant, or it cannot
    be written: then whatever served before serves on. The newest KEPT others stay beside it.
    """
    digest = hashlib.sha256(b"".join(data for _, data in sorted(files.items())))
    name = f"{kind}-{digest.hexdigest()[:12]}"
    install(models, name, files, check)
    _forget(models, kind, name)
    return name


def install(
    models: Path, name: str, files: Mapping[str, bytes], check: Check = lambda _: None
) -> None:
    """Write `models/NAME` whole or not at all, and let `models/current` point to it.

    A model is never overwritten; one that is there and damaged is none. Raises ModelError.
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
    """Whether the model is there; a damaged one is gone afterwards."""
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
            (draft / name).chmod(0o644)  # weights are no secret, and who trains is not who serves
        draft.chmod(0o755)
        for path in (draft, *draft.iterdir()):
            chown_to_parent(path)
        check(draft)
        sync_folder(draft)
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def point(link: Path, name: str) -> None:
    """Whoever looks sees the old folder or the new one, never none."""
    fresh = link.with_name(f".{link.name}-{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(name)
    chown_to_parent(fresh)
    fresh.replace(link)


def _forget(models: Path, kind: str, serving: str) -> None:
    """Remove all but the newest earlier models, and drafts that nobody writes any more."""
    earlier = [one for one in models.glob(f"{kind}-*") if one.name != serving]
    stale = [one for one in models.glob(f"{_DRAFT}*") if time.time() - _age_s(one) > STALE_S]
    for folder in sorted(earlier, key=_age_s)[:-KEPT] + stale:
        shutil.rmtree(folder, ignore_errors=True)


def _age_s(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0  # another training has just removed it
