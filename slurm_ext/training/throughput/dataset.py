"""Rows of history as examples, split by time: a model is judged by runs later than all it saw."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

from slurm_ext.core.records import LoaderRun
from slurm_ext.history.store.names import KEY_OF_LEVEL
from slurm_ext.model.throughput.evidence_checks import usable_runs
from slurm_ext.model.throughput.features import PriorInput
from slurm_ext.model.throughput.inversion import invert

TRAIN, CALIBRATE = 0.70, 0.15  # shares of the window, oldest first; the rest is the test
NEWEST = 20_000  # examples; older ones tell little and cost time
_POSITIVE = ("samples_per_s", "accel_samples_per_s", "fetch_wall_s", "batch_size", "cores", "end_s")
_LOADER = tuple(field.name for field in fields(LoaderRun))


@dataclass(frozen=True, slots=True)
class Example:
    """One run: what was known at its submission, and the logs of G, f and u it then showed."""

    end_s: float
    known: PriorInput
    targets: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Split:
    """Oldest to newest; no example of a later part ended before one of an earlier part."""

    train: Sequence[Example]
    calibrate: Sequence[Example]
    test: Sequence[Example]


def examples(rows: Iterable[Sequence[Any]], columns: Sequence[str]) -> list[Example]:
    """Examples of rows of history whose values stand in the order of `columns`, oldest first.

    The rows come newest first; those behind the first NEWEST examples are not read. Rows without a
    measured rate or cost (imported ones may have none) are left out, as are those that contradict
    themselves, and those whose loader does not tell how fast they train.
    """
    named = (dict(zip(columns, row, strict=True)) for row in rows)
    measured = (row for row in named if all((row[name] or 0) > 0 for name in _POSITIVE))
    runs = ((row, LoaderRun(**{name: row[name] for name in _LOADER})) for row in measured)
    sound = ((row, run) for row, run in runs if usable_runs([run]))
    found = [_example(row, run) for row, run in islice(sound, NEWEST)]
    found.reverse()
    return sorted(found, key=lambda example: example.end_s)


def split(every: Sequence[Example]) -> Split:
    """Oldest for the fit, then for the interval's width, the newest for the verdict."""
    first = round(len(every) * TRAIN)
    second = round(len(every) * (TRAIN + CALIBRATE))
    return Split(every[:first], every[first:second], every[second:])


def _example(row: dict[str, Any], run: LoaderRun) -> Example:
    inverted = invert(run)
    prior_input = PriorInput(
        user=row["user"],
        partition=row["partition"],
        gpus=run.gpus or 0,
        keys={level: row[key] for level, key in KEY_OF_LEVEL.items()},
    )
    return Example(
        row["end_s"],
        prior_input,
        (inverted.accel.log_mean, inverted.wall.log_mean, inverted.cpu.log_mean),
    )
