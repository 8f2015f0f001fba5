"""`dlqueue train`: fit priors, slowdowns and durations; promote what later runs bear out."""

import argparse
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

from slurm_ext.core.errors import MissingError

if TYPE_CHECKING:
    from slurm_ext.training.demand.challenge import DemandReport
    from slurm_ext.training.duration.challenge import DurationReport
    from slurm_ext.training.scaling.challenge import ScalingReport
    from slurm_ext.training.slowdown.challenge import SharingReport
    from slurm_ext.training.throughput.challenge import PriorReport

HELP = "Fit the shared priors from history; promote what is better, say why the rest is not."


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's own options."""
    parser.add_argument("--seed", type=int, default=0, help="start of the random numbers")


def run(args: argparse.Namespace) -> int:
    """Train once; 0 whether or not the new model was promoted."""
    from slurm_ext.core.settings.document import load

    for module, name in (("torch", "PyTorch"), ("lightgbm", "LightGBM")):
        if find_spec(module) is None:
            raise MissingError(f"{name} is not installed", "pip install 'dlqueue[train]'")
    from slurm_ext.history.store.store import open_history
    from slurm_ext.history.views.columns import TRAINING_COLUMNS, training_rows
    from slurm_ext.history.views.finished_jobs import newest_finished
    from slurm_ext.model.duration.predictor import MOST_RUNS
    from slurm_ext.training.demand.challenge import teach
    from slurm_ext.training.duration.challenge import challenge as challenge_durations
    from slurm_ext.training.duration.history_jobs import finished_jobs
    from slurm_ext.training.scaling.challenge import challenge
    from slurm_ext.training.scaling.history_runs import rows
    from slurm_ext.training.slowdown.challenge import challenge as challenge_sharing
    from slurm_ext.training.slowdown.history_runs import sharing_history
    from slurm_ext.training.throughput.challenge import train
    from slurm_ext.training.throughput.dataset import examples

    state = load(args.config).state_dir
    with open_history(state / "history.db", read_only=True) as history:
        every = examples(training_rows(history), TRAINING_COLUMNS)
        growing = rows(training_rows(history), TRAINING_COLUMNS)
        sharing = sharing_history(history)
        ended = finished_jobs(newest_finished(history, MOST_RUNS))
    report = train(every, state / "models", seed=args.seed, told=_progress)
    grown = challenge(growing, state / "models")
    shared = challenge_sharing(sharing, state / "models")
    lasted = challenge_durations(ended, state / "models")
    needed = teach(state)
    _print(report, grown, shared, lasted, needed, as_json=args.json)
    return 0


def _progress(step: int, loss: float) -> None:
    if step % 100 == 0:
        print(f"step {step}: loss {loss:.3f}", file=sys.stderr)


def _print(
    report: "PriorReport",
    scaling: "ScalingReport",
    sharing: "SharingReport",
    durations: "DurationReport",
    demands: "list[DemandReport]",
    *,
    as_json: bool,
) -> None:
    if as_json:
        import json
        from dataclasses import asdict

        others = {"scaling": asdict(scaling), "sharing": asdict(sharing)}
        others["durations"] = asdict(durations)
        pools = [asdict(one) for one in demands]
        print(json.dumps({**asdict(report), **others, "demand": pools}))
        return
    pairs = f"{sharing.runs} runs of {sharing.pairs} pairs"
    print("\n".join([
        f"{_verdict(report)} ({report.runs} runs)",
        *_errors(report, "(mean absolute log)"),
        f"growth with GPUs: {_verdict(scaling)}",
        f"sharing: {_verdict(sharing)} ({pairs})",
        *_errors(sharing, "of a job's speed alone"),
        f"run times: {_verdict(durations)} ({durations.runs} jobs)",
        *_errors(durations, "(mean absolute log)"),
        *(_pool(one) for one in demands),
    ]))  # fmt: skip


def _verdict(one: "PriorReport | ScalingReport | SharingReport | DurationReport") -> str:
    return f"{f'promoted {one.model}' if one.promoted else 'not promoted'}: {one.why}"


def _errors(one: "PriorReport | SharingReport | DurationReport", unit: str) -> Iterator[str]:
    """A line for ours and whatever it was held against."""
    for name, score in (one.scores or {}).items():
        if score:
            held = score.get("coverage90")
            inside = "" if held is None else f", 90 % interval holds {held:.0%}"
            yield f"  {name:<9} error {score['mae']:.3f} {unit}{inside}"


def _pool(one: "DemandReport") -> str:
    needed = f"promoted {one.model}" if one.promoted else "persistence serves"
    return f"nodes needed, {one.pool}: {needed}: {one.why} ({one.slots} slots of ten minutes)"
