"""Predictions of the runs that a state keeps, by the model as it is now: nothing runs again.

    python -m contrib.bench.promises.replay STATE [STATE ...] [--json]

Each run of a training but its first is predicted from those before it, in the shape that it had and
for the world that its record says it met; where the record does not know, for the one that is told
first (`worlds_told_first` counts those: the nearer of two would be chosen by what came). So the
effect of a change to the model on all trials is known in seconds; which shape that model would
choose is not. The opponent is what people do: "as last time". Intervals are the model's own, before
outcomes widen them.
"""

import argparse
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any

from contrib.bench.common.program import Result, at_most, options, row, run
from contrib.bench.promises.score import COVERED, MOST_ERROR
from contrib.bench.promises.site import partition
from slurm_ext.advisor.evidence.whole_run import whole_run_of, whole_run_predictor
from slurm_ext.advisor.evidence.worlds import worlds_of
from slurm_ext.core.errors import InputError
from slurm_ext.core.records import Level, LoaderRun, Prediction, Shape
from slurm_ext.core.stalls.own_queue import crowded
from slurm_ext.history.store.names import LOADER_COLUMNS
from slurm_ext.model.throughput.estimate import estimate

_COLUMNS = ",".join(f"l.{name}" for name in LOADER_COLUMNS)
_RUNS = f"""
SELECT l.key_script_args, r.partition, r.cpus_per_task, {_COLUMNS}
FROM loader_runs l JOIN runs r ON r.id = l.run WHERE l.doubt IS NULL ORDER BY r.job_id"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run that the state keeps."""

    cpus: int
    roams: bool  # Slurm did not keep it on its cores
    run: LoaderRun

    @property
    def rate(self) -> float:
        """Samples/s of one of its processes over the whole run."""
        return (self.run.whole_samples_per_s or self.run.samples_per_s) / (self.run.ranks or 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A prediction and its run: natural logarithms of rate over what came."""

    kind: str
    missed: float
    low: float
    high: float
    as_last: float  # of the run before
    told_first: bool  # two worlds were told, and its record does not say which it met

    @property
    def inside(self) -> bool:
        """True if the interval contains what came."""
        return self.low <= 0 <= self.high


def main() -> None:
    """Run and print."""
    parser = options(__doc__, quick="no difference: it takes seconds")
    parser.add_argument("states", nargs="+", type=Path, help="--state of earlier benchmarks")
    run(parser, result, show)


def result(args: argparse.Namespace) -> Result:
    """The benchmark's last line."""
    scripts = [script for state in args.states for script in _scripts(state)]
    told = [one for script in scripts for one in replayed(script)]
    if not told:
        raise SystemExit("no training ran twice: nothing to predict")
    kinds = sorted({one.kind for one in told})
    figures = {kind: _figures([one for one in told if one.kind == kind]) for kind in kinds}
    every = _figures(told)
    low, high = COVERED
    wanted = [
        row("coverage", list(COVERED), every["coverage90"], met=low <= every["coverage90"] <= high),
        at_most("median error", MOST_ERROR, every["median_error"]),
        at_most(
            "median error of as last time", every["median_error_as_last"], every["median_error"]
        ),
    ]
    return {"bench": "promises replayed", "figures": {"all": every, **figures}, "wanted": wanted}


def _scripts(state: Path) -> Iterator[list[Job]]:
    """Runs of each training, oldest first. Raises InputError."""
    path = Path(f"{state}.site") / "history.db"
    if not path.exists():
        raise InputError(str(state), f"keeps no history: there is no {path}")
    jobs: dict[int, list[Job]] = {}
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as history:
        for key, where, cpus, *columns in history.execute(_RUNS):
            values: Mapping[str, Any] = dict(zip(LOADER_COLUMNS, columns, strict=True))
            loaded = LoaderRun(**{**values, "emulated": bool(values["emulated"])})
            jobs.setdefault(key, []).append(
                Job(cpus=cpus, roams=where == partition(False), run=loaded)
            )
    yield from jobs.values()


def replayed(script: Sequence[Job]) -> Iterator[Replayed]:
    """Each run of one training but the first, where its earlier ones say anything."""
    for count in range(1, len(script)):
        job, before = script[count], script[count - 1 :: -1]
        told = _predicted([one.run for one in before], job)
        if told is None:
            continue
        other, beside = told.elsewhere, _beside(job, told)
        rate, bounds = told.samples_per_s, told.interval
        unknown = other is not None and crowded(job.run) is None
        if other is not None and told.crowded != beside:
            rate, bounds = other.samples_per_s, other.interval
        cores, world = ("shared" if job.roams else "own"), ("beside others" if beside else "quiet")
        yield Replayed(
            kind=f"{cores} cores, {world}",
            missed=log(rate / job.rate),
            low=log(bounds.low / job.rate),
            high=log(bounds.high / job.rate),
            as_last=log(before[0].rate / job.rate),
            told_first=unknown,
        )


def _predicted(before: Sequence[LoaderRun], job: Job) -> Prediction | None:
    """The rates of its shape as its user reads them."""
    known = estimate({Level.SCRIPT_ARGS: before})
    if known is None:
        return None
    whole, shape = whole_run_of(before), Shape(cpus_per_task=job.cpus, num_workers=job.run.workers)
    cores = next((run.node_cores for run in before if run.node_cores), None) or job.cpus
    told = whole_run_predictor(known, cores, (1.0, 1.0), whole, roams=job.roams, as_measured=True)(
        shape
    )
    shared_by = job.cpus if job.roams else None
    crowd = worlds_of(known, whole, node_cores=cores, shared_by=shared_by).crowd
    return told if crowd is None else crowd.told(told, 1.0, 1.0)


def _beside(job: Job, told: Prediction) -> bool:
    """True if others were on its cores; where its record does not know, the first world counts."""
    met = crowded(job.run)
    return bool(told.crowded if met is None and told.elsewhere is not None else met)


def _figures(told: Sequence[Replayed]) -> Result:
    return {
        "predictions": len(told),
        "coverage90": sum(one.inside for one in told) / len(told),
        "median_error": exp(median(abs(one.missed) for one in told)) - 1,
        "median_error_as_last": exp(median(abs(one.as_last) for one in told)) - 1,
        "median_high_over_low": exp(median(one.high - one.low for one in told)),
        "worlds_told_first": sum(one.told_first for one in told),
    }


def show(measured: Result) -> None:
    """One line for each kind."""
    for kind, one in measured["figures"].items():
        print(
            f"{kind}: {one['predictions']} predictions, {one['coverage90']:.0%} inside (high"
            f" {one['median_high_over_low']:.2f} times low), median error"
            f" {one['median_error']:.1%}; as last time {one['median_error_as_last']:.1%}"
        )


if __name__ == "__main__":
    main()
