"""The verdict on a challenger, and the switch of `models/current`."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from slurm_ext.facts.errors import ModelError

BETTER = 0.99  # of the incumbent's error: a smaller gain is chance
COVERAGE = (0.8, 1.0)


def objection(
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


def install(models: Path, name: str, files: Mapping[str, bytes]) -> Path:
    """Write `models/NAME` whole or not at all, and let `models/current` point to it."""
    try:
        models.mkdir(parents=True, exist_ok=True)
        folder = models / name
        if not folder.is_dir():
            _write(models, folder, files)
        point(models / "current", name)
    except OSError as error:
        raise ModelError(f"{models}: cannot be written: {error.strerror}") from None
    return folder


def _write(models: Path, folder: Path, files: Mapping[str, bytes]) -> None:
    draft = Path(mkdtemp(prefix=".draft-", dir=models))
    try:
        for name, data in files.items():
            with (draft / name).open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        draft.chmod(0o755)
        draft.rename(folder)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def point(link: Path, name: str) -> None:
    """Whoever looks sees the old folder or the new one, never none."""
    fresh = link.with_name(f".{link.name}-{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(name)
    fresh.replace(link)
