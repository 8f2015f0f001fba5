"""The folder of one profile run: its environment, and what its processes left there."""

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

from slurm_ext.node.common.job import PROBE_SITE

_READ_S = 10.0
_MOST_BYTES = 4 << 20
_MOST_FILES = 4096
_OFF = {  # trackers of experiments, in their own words
    "WANDB_MODE": "disabled",
    "COMET_MODE": "disabled",
    "NEPTUNE_MODE": "debug",
    "CLEARML_OFFLINE_MODE": "1",
    "SWANLAB_MODE": "disabled",
    "DISABLE_MLFLOW_INTEGRATION": "TRUE",
}
VARIABLES = (  # that a run sets
    *_OFF,
    "DLQUEUE",
    "DLQUEUE_PROFILE",
    "DLQUEUE_RUN_DIR",
    "MLFLOW_TRACKING_URI",
    "PYTHONPATH",
)


class ProfileLimits(NamedTuple):
    """Bounds of a run: steps and seconds of training, seconds until it begins, the order's seed."""

    steps: int
    seconds: float
    startup_s: float
    seed: int

    @property
    def whole_s(self) -> float:
        """Seconds after which a run that does not end by itself is ended."""
        return self.startup_s + 1.5 * self.seconds


@dataclass(frozen=True, slots=True)
class ProfileRun:
    """A run that is over: what its processes left, how it ended, and what it said last."""

    windows: list[dict[str, Any]] = field(default_factory=list)
    summaries: list[dict[str, Any]] = field(default_factory=list)
    how: str = "ended"
    said: str = ""


def environment(run_dir: Path, limits: ProfileLimits, base: Mapping[str, str]) -> dict[str, str]:
    """The environment of a profile run: only the probe's own, its limits, trackers switched off.

    `DLQUEUE=off` keeps the site's hooks and the advisor away: such a run tells nothing of jobs.
    """
    left_out = ("DLQUEUE", "SLURM_EXPORT_ENV")  # by the latter, srun would keep ours from its steps
    kept = {name: value for name, value in base.items() if not name.startswith(left_out)}
    path = base.get("PYTHONPATH")
    ours = {
        "DLQUEUE": "off",
        "DLQUEUE_RUN_DIR": str(run_dir),
        "DLQUEUE_PROFILE": f"steps={limits.steps},seconds={limits.seconds:g},seed={limits.seed}",
        "PYTHONPATH": f"{PROBE_SITE}:{path}" if path else PROBE_SITE,
        "MLFLOW_TRACKING_URI": f"file:{run_dir}/mlruns",
    }
    return {**kept, **_OFF, **ours}


@contextmanager
def run_folder(parent: Path) -> Iterator[Path]:
    """A new folder of this user's own, gone afterwards. Raises OSError."""
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = parent / f"dlqueue-profile-{token_hex(4)}"
    folder.mkdir(mode=0o700)
    (folder / "tmp").mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def left(folder: Path, how: str, remark: str = "") -> ProfileRun:
    """Files that a run's processes left in its folder; one that cannot be used counts as none."""
    from slurm_ext.node.record.summaries import collect

    collected = collect(str(folder), os.geteuid(), time.monotonic() + _READ_S)
    paths = sorted(folder.glob("windows-*.json"))[:_MOST_FILES]
    documents = [document for path in paths if (document := _document(path)) is not None]
    return ProfileRun(documents, collected.summaries, how, remark)


def _document(path: Path) -> dict[str, Any] | None:
    """The windows of one process; None for what is not one of version 1."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        if path.stat().st_size <= _MOST_BYTES:
            document = json.loads(path.read_bytes())
            if document["v"] == 1 and all(map(_is_window, document["windows"])):
                return dict(document)
    return None


def _is_window(window: Mapping[str, Any]) -> bool:
    sent = [seconds for step in window.get("sent", ()) for seconds in step.values()]
    return window["kind"] in ("N", "C", "S", "B", "T") and all(
        isinstance(step, float) and isfinite(step) and step >= 0 for step in window["steps"] + sent
    )
