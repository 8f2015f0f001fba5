"""Runs of history as measurements of how trainings grow with GPUs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import islice
from typing import Any

from slurm_ext.core.records import LoaderRun
from slurm_ext.core.stats import fair_newest
from slurm_ext.model.scaling.model import TrainingConfig
from slurm_ext.model.scaling.multi_gpu_estimate import measurement_of
from slurm_ext.training.scaling.rows import ScalingRow

NEEDED = ("samples_per_s", "accel_samples_per_s", "fetch_wall_s", "batch_size", "cores")
MOST_TRAININGS = 24  # the newest: the fit grows with the cube of the rows
MOST_ROWS = 24  # of one training
MOST_READ = 200_000  # runs, the newest: two seconds of work
_LOADER = tuple(field.name for field in fields(LoaderRun))


def rows(table: Iterable[Sequence[Any]], columns: Sequence[str]) -> list[ScalingRow]:
    """Rows of history, newest first as they come, as rows of the newest trainings on GPUs.

    A training is a script of one user; its cluster is the GPU's model. Only trainings that ran on
    more than one number of GPUs show how they grow. No user has more than a share of them. They are
    returned oldest first; rows behind the first MOST_READ are not read.
    """
    owners: dict[tuple[str, str], str] = {}
    trainings: dict[tuple[str, str], dict[TrainingConfig, ScalingRow]] = {}
    for values in islice(table, MOST_READ):
        named = dict(zip(columns, values, strict=True))
        row = _row(named)
        if row is not None:
            key, config = (row.model, row.cluster), row.measured.config
            owners.setdefault(key, named["user"] or "")
            configs = trainings.setdefault(key, {})
            if len(configs) < MOST_ROWS:
                configs.setdefault(config, row)  # the newest of a repeated one
    oldest_first = [list(configs.values())[::-1] for configs in reversed(trainings.values())]
    growing = [configs for configs in oldest_first if _counts(configs) > 1]
    whose = [owners[configs[0].model, configs[0].cluster] for configs in growing]
    fair = [growing[place] for place in fair_newest(whose)]
    return [row for configs in fair[-MOST_TRAININGS:] for row in configs]


def _row(named: Mapping[str, Any]) -> ScalingRow | None:
    if not all((named[name] or 0) > 0 for name in NEEDED) or not named["gpus"]:
        return None
    measured = measurement_of(LoaderRun(**{name: named[name] for name in _LOADER}))
    key = named["key_script"]
    if measured is None or key is None:
        return None
    return ScalingRow(model=str(key), cluster=named["gpu_model"] or "", measured=measured)


def _counts(training: Sequence[ScalingRow]) -> int:
    return len({row.measured.config.gpus for row in training})
