"""`dlqueue train`: fit priors, slowdowns and durations; promote what later runs bear out."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from slurm_ext.core.errors import Extra

if TYPE_CHECKING:
    from slurm_ext.history.store.store import History
    from slurm_ext.training.challenger import TrainingVerdict

HELP = "Fit the shared priors from history; promote what is better, say why the rest is not."


class Verdicts(NamedTuple):
    """Verdict of each kind of model; of demand, one a pool."""

    prior: "TrainingVerdict"
    scaling: "TrainingVerdict"
    sharing: "TrainingVerdict"
    durations: "TrainingVerdict"
    demand: "Sequence[TrainingVerdict]"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's own options."""
    parser.add_argument("--seed", type=int, default=0, help="start of the random numbers")


def run(args: argparse.Namespace) -> int:
    """Train once; 0 whether or not the new model was promoted."""
    from slurm_ext.cli.common.settings import load_for_history
    from slurm_ext.core.successes import TRAINING, mark_success

    for module, name in (("torch", "PyTorch"), ("lightgbm", "LightGBM")):
        if find_spec(module) is None:
            raise Extra("train").lacks(name)
    state = load_for_history(args.config).state_dir
    verdicts = train_all(state, args.seed)
    mark_success(state, TRAINING)
    if args.json:
        import json

        print(json.dumps(_json(verdicts)))
    else:
        print("\n".join(_lines(verdicts)))
    return 0


def train_all(state: Path, seed: int) -> Verdicts:
    """Have every kind of model challenged by what the history of `state` holds.

    One after the other, each with its own rows alone in memory; the kind that needs PyTorch, which
    stays in memory, is the last.
    """
    from slurm_ext.history.store.store import open_history
    from slurm_ext.training.demand.challenge import challenge_pools

    models = state / "models"
    with open_history(state / "history.db", read_only=True) as history:
        durations = _durations(history, models)
        sharing = _sharing(history, models)
        scaling = _scaling(history, models)
        prior = _prior(history, models, seed)
    return Verdicts(
        prior=prior,
        scaling=scaling,
        sharing=sharing,
        durations=durations,
        demand=challenge_pools(state),
    )


def _durations(history: "History", models: Path) -> "TrainingVerdict":
    from slurm_ext.history.views.finished_jobs import newest_finished
    from slurm_ext.model.duration.predictor import MOST_RUNS
    from slurm_ext.training.duration.challenge import challenge, finished_jobs

    return challenge(finished_jobs(newest_finished(history, MOST_RUNS)), models)


def _sharing(history: "History", models: Path) -> "TrainingVerdict":
    from slurm_ext.training.slowdown.challenge import challenge
    from slurm_ext.training.slowdown.history_runs import sharing_history

    return challenge(sharing_history(history), models)


def _scaling(history: "History", models: Path) -> "TrainingVerdict":
    from slurm_ext.history.views.columns import TRAINING_COLUMNS, training_rows
    from slurm_ext.training.scaling.challenge import challenge
    from slurm_ext.training.scaling.history_runs import rows

    return challenge(rows(training_rows(history), TRAINING_COLUMNS), models)


def _prior(history: "History", models: Path, seed: int) -> "TrainingVerdict":
    from slurm_ext.history.views.columns import TRAINING_COLUMNS, training_rows
    from slurm_ext.training.throughput.challenge import challenge
    from slurm_ext.training.throughput.dataset import examples

    runs = examples(training_rows(history), TRAINING_COLUMNS)
    return challenge(runs, models, seed=seed, progress=_progress)


def _progress(step: int, loss: float) -> None:
    if step % 100 == 0:
        print(f"step {step}: loss {loss:.3f}", file=sys.stderr)


def _json(verdicts: Verdicts) -> dict[str, Any]:
    return {
        **_fields(verdicts.prior),
        "scaling": _scaling_json(verdicts.scaling),
        "sharing": _fields(verdicts.sharing),
        "durations": _fields(verdicts.durations),
        "demand": [_pool_json(pool) for pool in verdicts.demand],
    }


def _fields(verdict: "TrainingVerdict") -> dict[str, Any]:
    names = ("promoted", "why", "runs", "model", "window_s", "scores")
    return {name: getattr(verdict, name) for name in names} | dict(verdict.details)


def _scaling_json(verdict: "TrainingVerdict") -> dict[str, Any]:
    fields = {name: getattr(verdict, name) for name in ("promoted", "why", "model")}
    ours, physics = _both(verdict, "physics", "median_error")
    return {**fields, "trainings": verdict.runs, "error": ours, "error_without": physics}


def _pool_json(verdict: "TrainingVerdict") -> dict[str, Any]:
    fields = {name: getattr(verdict, name) for name in ("promoted", "why", "model")}
    ours, persistence = _both(verdict, "persistence", "mae")
    errors = {"learned_mae": ours, "persistence_mae": persistence}
    return {**verdict.details, **fields, "slots": verdict.runs, **errors}


def _both(verdict: "TrainingVerdict", baseline: str, metric: str) -> tuple[Any, Any]:
    scores = verdict.scores or {}
    ours, theirs = (scores.get(name, {}).get(metric) for name in ("ours", baseline))
    return ours, theirs


def _lines(verdicts: Verdicts) -> Iterator[str]:
    prior, scaling, sharing, durations, demand = verdicts
    yield f"{_verdict(prior)} ({prior.runs} runs)"
    yield from _errors(prior, "(mean absolute log)")
    yield f"growth with GPUs: {_verdict(scaling)}"
    pairs = f"{sharing.runs} runs of {sharing.details['pairs']} pairs"
    yield f"sharing: {_verdict(sharing)} ({pairs})"
    yield from _errors(sharing, "of a job's speed alone")
    yield f"run times: {_verdict(durations)} ({durations.runs} jobs)"
    yield from _errors(durations, "(mean absolute log)")
    yield from map(_pool, demand)


def _verdict(verdict: "TrainingVerdict") -> str:
    result = f"promoted {verdict.model}" if verdict.promoted else "not promoted"
    return f"{result}: {verdict.why}"


def _errors(verdict: "TrainingVerdict", unit: str) -> Iterator[str]:
    """One line for our score and one for each that it was compared with."""
    for name, score in (verdict.scores or {}).items():
        if score:
            coverage = score.get("coverage90")
            inside = "" if coverage is None else f", 90 % interval holds {coverage:.0%}"
            yield f"  {name:<9} error {score['mae']:.3f} {unit}{inside}"


def _pool(verdict: "TrainingVerdict") -> str:
    result = f"promoted {verdict.model}" if verdict.promoted else "persistence serves"
    slots = f"{verdict.runs} slots of ten minutes"
    return f"nodes needed, {verdict.details['pool']}: {result}: {verdict.why} ({slots})"
