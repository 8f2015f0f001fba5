"""Errors of the rate predicted at larger counts: 8 to 64 GPUs, and 8 threads.

The rule for points is the same for every series: rates at 1, 2 and 4 units are known (fewer if the
table has fewer), and every count from 8 on is predicted. A series is one model, batch, GPU type
and placement (`elasticflow_a100.csv`, `gavel_scaling.csv`), or one pipeline, strategy and epoch
(`presto_thread_scaling.csv`: medians of the repetitions, one thread is 1).

Nothing is learned from the predicted job: all series of the same model on the same GPU type (or of
the same pipeline) are left out of the training folder. So every job is predicted from others, with
one folder (leave one job out) or two. `gavel_scaling.csv` has two models only, so its prior also
learns from `pollux_sia_steptime.csv.gz`. `nothing_learnt` is our curve without other jobs, as
`dlqueue predict` uses it for more GPUs.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from contrib.bench.common import program
from contrib.bench.throughput.scale.baselines import LAWS, Transfer
from contrib.bench.throughput.scale.fit_prior import THREADS, calibrated
from contrib.bench.throughput.scale.series import (
    WANTED_FROM,
    Series,
    Table,
    elasticflow,
    gavel,
    presto,
)
from contrib.bench.throughput.scale.steptime import steptime
from contrib.bench.throughput.scores import by_chance, errors, least_error
from slurm_ext.core.errors import InputError
from slurm_ext.model.scaling.speedup import fit
from slurm_ext.model.scaling.speedup_terms import GPUS_EACH, GPUS_SPLIT, SpeedupPrior

SOURCES: dict[str, Callable[[Path], Table]] = {
    "elasticflow": elasticflow,
    "gavel": gavel,
    "presto": presto,
    "steptime": steptime,
}
LEARNT_FROM = {"gavel": ("gavel", "steptime")}  # others: their own table alone
STARTS = {
    "gpus_split": GPUS_SPLIT,
    "gpus_each_spread": GPUS_EACH,
    "gpus_each_consolidated": GPUS_EACH,
    "threads": THREADS,
}
PROTOCOLS = {"gpus_8_to_64": ("elasticflow", "gavel"), "threads_8_from_2_and_4": ("presto",)}
TARGETS = {"gpus_8_to_64": 12.0, "threads_8_from_2_and_4": 2.0}
COVERAGE = (0.88, 0.92)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountPrediction:
    """Predictions of one count of one series by every method, and the measured rate."""

    series: Series
    measured: float
    noise_log_sds: tuple[float, float]  # of this rate and of the last known one; 0: not known
    intervals: dict[str, tuple[float, float]]  # by method that has one; "ours" among them
    rates: dict[str, float]  # by method


def run(train: Path, test: Path, quick: bool) -> dict[str, Any]:
    """Figures of both protocols; `quick`: without the baselines that are learned.

    Raises InputError where a folder has none of the tables.
    """
    skipped: list[str] = []
    train_series = _read(train, skipped)
    test_series = train_series if train.resolve() == test.resolve() else _read(test, skipped)
    figures: dict[str, Any] = {}
    for protocol, sources in PROTOCOLS.items():
        predictions = [
            prediction
            for source in sources
            for prediction in _predictions(
                _to_learn(train_series, source), test_series.get(source, []), quick
            )
        ]
        if predictions:
            figures[protocol] = _scores(predictions)
            for source in sources if len(sources) > 1 else ():
                part = [
                    prediction for prediction in predictions if prediction.series.source == source
                ]
                figures[f"{protocol}.{source}"] = _scores(part) if part else None
    return {**figures, "skipped": skipped}


def _to_learn(by_source: dict[str, list[Series]], source: str) -> list[Series]:
    return [
        series
        for table in LEARNT_FROM.get(source, (source,))
        for series in by_source.get(table, [])
    ]


def wanted(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Targets, each with the measured value."""
    rows = []
    for protocol, target in TARGETS.items():
        ours = (figures.get(protocol) or {}).get("ours")
        if ours is None:
            continue
        error, inside = ours["medape"], ours["coverage90"]
        rows += [
            (f"{protocol}: medAPE at most, per cent", target, error, error <= target),
            (
                f"{protocol}: share inside the 90 % interval",
                list(COVERAGE),
                inside,
                COVERAGE[0] <= inside <= COVERAGE[1],
            ),
        ]
    return [dict(zip(("what", "target", "got", "met"), row, strict=True)) for row in rows]


def _read(folder: Path, skipped: list[str]) -> dict[str, list[Series]]:
    """Usable series by source; what is left out is added to `skipped`."""
    out = {}
    for source, read in SOURCES.items():
        try:
            table = read(folder)
        except InputError as error:
            skipped.append(str(error))
            continue
        skipped += table.skipped
        usable = [series for series in table.series if series.wanted]
        skipped += [] if usable else [f"{source}: no series has a count from {WANTED_FROM} on"]
        skipped += [
            f"{series.job}, {series.label}: {series.lacks}" for series in usable if series.lacks
        ]
        out[source] = [series for series in table.series if not series.lacks]
    if not out:
        raise InputError(str(folder), "has none of the tables: " + "; ".join(skipped))
    return out


def _predictions(train: list[Series], test: list[Series], quick: bool) -> Iterator[CountPrediction]:
    prior_of = cache(lambda kind, left_out: _prior(_others(train, left_out), kind))
    transfer_of = cache(lambda left_out: Transfer(_others(train, left_out)))
    trained = {one.job for one in train}
    for series in (one for one in test if one.wanted):
        left_out = series.job if series.job in trained else None
        fitted = {
            "ours": fit(series.known, prior_of(series.kind, left_out)),
            "nothing_learnt": fit(series.known, STARTS[series.kind]),
        }
        methods = {
            name: [law(series.known, one.count) for one in series.wanted]
            for name, law in LAWS.items()
        }
        if not quick:
            methods |= transfer_of(left_out).rates(series)
        for place, one in enumerate(series.wanted):
            curves_of = {name: curve.rate(one.count) for name, curve in fitted.items()}
            curves = {name: rate for name, (rate, _) in curves_of.items()}
            yield CountPrediction(
                series=series,
                measured=one.rate,
                noise_log_sds=(one.log_sd, series.known[-1].log_sd),
                intervals={name: (each.low, each.high) for name, (_, each) in curves_of.items()},
                rates=curves | {name: rates[place] for name, rates in methods.items()},
            )


def _others(train: Sequence[Series], job: str | None) -> list[Series]:
    return [one for one in train if one.job != job]


def _prior(train: Sequence[Series], kind: str) -> SpeedupPrior:
    jobs: dict[str, list[Any]] = {}
    for series in train:
        if series.kind == kind:
            jobs.setdefault(series.job, []).append(series.points)
    return calibrated(jobs, STARTS[kind], seen=4)


def _scores(predictions: Sequence[CountPrediction]) -> dict[str, Any]:
    measured = np.array([prediction.measured for prediction in predictions])
    methods = {
        name: errors(np.array([prediction.rates[name] for prediction in predictions]), measured)
        for name in predictions[0].rates
    }
    for name in predictions[0].intervals:
        methods[name] |= _interval(predictions, name)
    wanted, known = np.array([prediction.noise_log_sds for prediction in predictions]).T
    return {
        "n": len(predictions),
        "series": len(
            {(prediction.series.job, prediction.series.label) for prediction in predictions}
        ),
        "least_medape": least_error(wanted),
        "least_medape_from_last_known": least_error(np.hypot(wanted, known)),
        "coverage90_by_chance": by_chance(len(predictions)),
        "ours": methods.pop("ours"),
        "baselines": methods,
    }


def _interval(predictions: Sequence[CountPrediction], method: str) -> dict[str, float]:
    low, high = np.array([prediction.intervals[method] for prediction in predictions]).T
    measured = np.array([prediction.measured for prediction in predictions])
    inside = (low <= measured) & (measured <= high)
    return {
        "coverage90": float(inside.mean()),
        "median_high_over_low": float(np.median(high / low)),
    }


def main() -> None:
    """Score and print; 1 where a folder cannot be used."""
    parser = program.options(__doc__, quick="without the learned baselines")
    program.folders(parser, train="folder of tables to learn from", test="folder to predict")
    program.run(parser, _result, _print)


def _result(args: argparse.Namespace) -> dict[str, Any]:
    figures = run(args.train, args.test, args.quick)
    return {"bench": "throughput.scale", "figures": figures, "wanted": wanted(figures)}


def _print(result: dict[str, Any]) -> None:
    """Errors of every method, for people."""
    figures = result["figures"]
    for line in figures["skipped"]:
        print("skipped", line)
    for protocol, part in figures.items():
        if protocol == "skipped" or part is None:
            continue
        print(f"{protocol}: {part['n']} counts of {part['series']} series")
        for name, row in (("ours", part["ours"]), *part["baselines"].items()):
            cells = (f"{key} {value:8.3g}" for key, value in row.items() if value is not None)
            print(f"  {name:<24}{'  '.join(cells)}")


if __name__ == "__main__":
    main()
