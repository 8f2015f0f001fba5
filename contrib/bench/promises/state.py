"""Trials so far, in a file, so that a run that was cut goes on; the site lies beside it."""

import json
from dataclasses import asdict
from pathlib import Path

from contrib.bench.promises.score import Promise
from slurm_ext.core.errors import InputError

Trial = Promise | str
"""A promise with its run; a text: why there was none."""


class State:
    """Trials of one seed, in the file `path`; nowhere without one."""

    def __init__(self, path: Path | None, seed: int) -> None:
        self._path, self._seed = path, seed
        self.trials: list[Trial] = []
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            kept = json.loads(path.read_text())
            seed, rows = kept["seed"], kept["trials"]
            self.trials = [one if isinstance(one, str) else Promise(**one) for one in rows]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(str(path), f"is no state of promises: {error!r}") from None
        if seed != self._seed:
            raise InputError(str(path), f"holds trials of seed {seed}, not of {self._seed}")

    def keep(self, trial: Trial) -> None:
        """Keep one trial."""
        self.trials.append(trial)
        if self._path is not None:
            rows = [one if isinstance(one, str) else asdict(one) for one in self.trials]
            hidden = self._path.with_name(f".{self._path.name}")
            hidden.write_text(json.dumps({"seed": self._seed, "trials": rows}))
            hidden.replace(self._path)
