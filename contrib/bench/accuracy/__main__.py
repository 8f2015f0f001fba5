"""Predicted against achieved: trainings at shapes at which they have not run before.

Each training (the examples of job_templates/, and variations in batch, decoding, latency and size
of samples) runs once or twice as a job does, with the probe, at the shapes that it is known from.
Then it is predicted at other shapes (workers, cores by affinity or quota), and run there. What is
compared is what every record of a job holds: the throughput that the probe measured. Baselines on
the same runs: linear in workers, and the same as the nearest known run.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from contrib.bench.common import program
from contrib.bench.curve.loaders import can_confine, confined
from slurm_ext.core.loader_run import loader_run
from slurm_ext.core.records import Level, LoaderRun, Prediction
from slurm_ext.model.throughput.estimate import estimate
from slurm_ext.model.throughput.shape_predictor import core_predictor

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "job_templates" / "examples"
SITE = ROOT / "slurm_ext" / "probe" / "site"
OWN = Path(__file__).with_name("training.py")
TIMEOUT_S = 120
WANTED_PERCENT = 10.0

At = tuple[int, float]  # workers and cores


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """One training: what it is known from, and where it has not run before."""

    name: str
    words: Sequence[str]
    known: Sequence[At]
    wanted: Sequence[At]
    env: Mapping[str, str] = field(default_factory=dict)


def example(name: str, samples: int, epochs: int, known: list[At], wanted: list[At]) -> Training:
    """One of the examples, its own number of workers changed as the probe does it."""
    sizes = {"EXAMPLE_SAMPLES": str(samples), "EXAMPLE_EPOCHS": str(epochs)}
    words = [str(EXAMPLES / f"{name}_train.py")]
    return Training(name=name, words=words, known=known, wanted=wanted, env=sizes)


def variation(name: str, options: str, known: list[At], wanted: list[At]) -> Training:
    """The benchmark's own training with options."""
    return Training(name=name, words=[str(OWN), *options.split()], known=known, wanted=wanted)


TRAININGS = (
    example("jpeg", 384, 4, known=[(0, 2)], wanted=[(2, 2), (1, 1)]),
    example("slow_storage", 192, 4, known=[(1, 2)], wanted=[(4, 2), (8, 1)]),
    example("greedy", 3200, 3, known=[(8, 2)], wanted=[(1, 1)]),
    example("compute", 1280, 3, known=[(1, 2)], wanted=[(2, 1)]),
    variation("small batches", "--batch 4 --step-s 0.004", known=[(2, 2)], wanted=[(0, 2)]),
    variation(
        "costly decoding",
        "--width 1024 --batch 8 --step-s 0.02 --samples 256",
        known=[(1, 1), (2, 2)],
        wanted=[(4, 2), (2, 1.5)],
    ),
    variation(
        "far storage",
        "--latency-s 0.012 --batch 8 --step-s 0.01 --samples 384 --width 256",
        known=[(0, 2), (2, 1)],
        wanted=[(6, 2)],
    ),
    variation(
        "large samples",
        "--side 448 --batch 8 --step-s 0.024 --samples 256",
        known=[(0, 1)],
        wanted=[(3, 2), (1, 0.75)],
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeResult:
    """Predicted and achieved rate of one shape, in samples/s."""

    training: str
    at: At
    predicted: Prediction
    achieved: float
    nearest: LoaderRun

    @property
    def error_percent(self) -> float:
        """Absolute error in per cent of the achieved rate."""
        return abs(self.predicted.samples_per_s / self.achieved - 1) * 100

    @property
    def inside(self) -> bool:
        """True if the interval contains the achieved rate."""
        interval = self.predicted.interval
        return interval.low <= self.achieved <= interval.high

    def row(self) -> dict[str, Any]:
        """The figures."""
        return {
            "training": self.training,
            "workers": self.at[0],
            "cores": self.at[1],
            "predicted": self.predicted.samples_per_s,
            "interval": [self.predicted.interval.low, self.predicted.interval.high],
            "achieved": self.achieved,
            "error_percent": self.error_percent,
            "inside": self.inside,
        }


def run(training: Training, at: At) -> LoaderRun:
    """The training's evidence at one shape, from a process as a job's."""
    workers, cores = at
    with tempfile.TemporaryDirectory(prefix="dlqueue-bench-") as folder:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("DLQUEUE_", "PYTHON"))}
        env |= {"PYTHONPATH": str(SITE), "DLQUEUE_RUN_DIR": folder, **training.env}
        env |= {"DLQUEUE_NUM_WORKERS": str(workers)} if workers else {}
        with confined(cores):
            subprocess.run(
                [sys.executable, "-W", "ignore", *training.words],
                env=env,
                check=True,
                timeout=TIMEOUT_S,
                stdout=subprocess.DEVNULL,
            )
        summaries = [json.loads(path.read_text()) for path in Path(folder).glob("summary-*.json")]
    measured = loader_run(record(summaries, cores))
    if measured is None or measured.workers != workers:
        raise SystemExit(f"{training.name} with {workers} workers: was not measured as asked")
    return measured


def record(summaries: list[dict[str, Any]], cores: float) -> dict[str, Any]:
    """As much of a job's record as its evidence is made of."""
    return {
        "allocation": {"num_tasks": 1, "num_nodes": 1, "cpus_per_task": max(1, -int(-cores // 1))},
        "host": {"cores": os.cpu_count()},
        "outcome": {"state": "COMPLETED"},
        "probe": {"summaries": [{**one, "cores": cores} for one in summaries]},
    }


def check(training: Training) -> list[ShapeResult]:
    """The known shapes first, then each new one: predicted, and only then run."""
    known = [run(training, at) for at in training.known]
    belief = estimate({Level.SCRIPT_ARGS: known[::-1]})
    if belief is None:
        raise SystemExit(f"{training.name}: its own runs tell nothing")
    shapes = []
    for workers, cores in training.wanted:
        if cores != int(cores) and not can_confine():
            continue
        predicted = core_predictor(belief)(cores, workers)
        shapes.append(
            ShapeResult(
                training=training.name,
                at=(workers, cores),
                predicted=predicted,
                achieved=run(training, (workers, cores)).samples_per_s,
                nearest=min(known, key=lambda one: abs(one.workers - workers)),
            )
        )
        print(_line(shapes[-1]), file=sys.stderr)
    return shapes


def _line(shape: ShapeResult) -> str:
    interval = shape.predicted.interval
    return (
        f"{shape.training:<16} {shape.at[0]} workers {shape.at[1]:>4} cores:"
        f" predicted {shape.predicted.samples_per_s:6.1f} ({interval.low:.1f} to"
        f" {interval.high:.1f}), achieved {shape.achieved:6.1f}, error {shape.error_percent:4.1f} %"
    )


def result(every: list[ShapeResult]) -> dict[str, Any]:
    """The benchmark's one JSON object."""
    error = median(one.error_percent for one in every)
    linear = [
        one.nearest.samples_per_s * max(1, one.at[0]) / max(1, one.nearest.workers) for one in every
    ]
    same = [one.nearest.samples_per_s for one in every]
    figures = {
        "combinations": len(every),
        "ours": {
            "medape": error,
            "worst": max(one.error_percent for one in every),
            "coverage90": sum(one.inside for one in every) / len(every),
        },
        "baselines": {
            name: {"medape": median(_errors(rates, every))}
            for name, rates in (("linear", linear), ("as_the_nearest_run", same))
        },
        "rows": [one.row() for one in every],
    }
    wanted = {
        "what": "median error at shapes not run before at most, per cent",
        "target": WANTED_PERCENT,
        "got": error,
        "met": error <= WANTED_PERCENT,
    }
    return {"bench": "accuracy", "figures": figures, "wanted": [wanted]}


def _errors(rates: Sequence[float], every: Sequence[ShapeResult]) -> list[float]:
    return [abs(r / one.achieved - 1) * 100 for r, one in zip(rates, every, strict=True)]


def main() -> None:
    """Run, predict, run, compare; the table goes to stderr as it grows."""
    program.run(
        program.options(__doc__, quick="two trainings, for trying"), _result, lambda _: None
    )


def _result(args: argparse.Namespace) -> dict[str, Any]:
    chosen = TRAININGS[:2] if args.quick else TRAININGS
    return result([shape for training in chosen for shape in check(training)])


if __name__ == "__main__":
    main()
