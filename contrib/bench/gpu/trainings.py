"""Real trainings on the device, as the rows see them: programs/training.py makes them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from contrib.bench.gpu.here import SITE, Here
from contrib.bench.gpu.report import AbsentError
from contrib.bench.gpu.talker import Talker

MARGIN_S = 60.0  # beyond the time that a training was told to run: its workers, its first batches
_numbers = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """One order's clocks, in seconds of a batch; None: there was no such clock."""

    batches: int
    samples: int
    wall_s: float
    wait_s: float
    step_s: float
    marks_wait_s: float | None
    probe: Mapping[str, float] | None
    profile: Mapping[str, Any] | None

    @property
    def rate(self) -> float:
        """Samples a second."""
        return self.samples / self.wall_s

    @property
    def batch_s(self) -> float:
        """Seconds of a batch in all."""
        return self.wall_s / self.batches


class Training(Talker):
    """One training process; under the probe where it has words (`{}`: measure only) for it."""

    def __init__(self, here: Here, probe: Mapping[str, str] | None = None) -> None:
        number = next(_numbers)
        self._run = Path(here.folder, f"run-{number}")
        self._run.mkdir()
        env = {"OMP_NUM_THREADS": "1"}
        if probe is not None:
            env |= {"PYTHONPATH": str(SITE), "DLQUEUE_RUN_DIR": str(self._run), **probe}
        command = here.command("training", here.device, f"{here.folder}/jpegs")
        super().__init__(command, here.environment(env), f"{here.folder}/training-{number}")
        self._device = here.device

    def begin(
        self, seconds: float, source: str, workers: int, *, way: str = "probed", batch: int = 0
    ) -> None:
        """Start training for so long; `batch` 0: what fits the device."""
        self._seconds = seconds
        size = batch or (64 if self._device == "cuda" else 4)
        self.tell(seconds=seconds, source=source, workers=workers, way=way, batch=size)

    def end(self) -> Trained:
        """The training that was begun, once it is over."""
        return Trained(**self.hear(self._seconds + MARGIN_S))

    def run(self, *order: Any, **more: Any) -> Trained:
        """Train to the end."""
        self.begin(*order, **more)
        return self.end()

    def summary(self) -> dict[str, Any]:
        """The probe's summary after the last order. Raises AbsentError."""
        for path in self._run.glob("summary-*.json"):
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return found
        raise AbsentError("the probe wrote no summary")
