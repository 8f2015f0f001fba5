"""`dlqueue train`: fit priors and how jobs slow each other; promote what later runs bear out."""

import argparse
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from slurm_ext.facts.errors import MissingError

if TYPE_CHECKING:
    from slurm_ext.training.challenge import Report
    from slurm_ext.training.scaling_challenge import ScalingReport
    from slurm_ext.training.slowdown_challenge import SharingReport

HELP = "Fit the shared priors from history; promote what is better, say why the rest is not."


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's own options."""
    parser.add_argument("--seed", type=int, default=0, help="start of the random numbers")


def run(args: argparse.Namespace) -> int:
    """Train once; 0 whether or not the new model was promoted."""
    from slurm_ext.facts.settings import load

    if find_spec("torch") is None:
        raise MissingError("PyTorch is not installed", "pip install 'dlqueue[train]'")
    from slurm_ext.history.columns import TRAINING_COLUMNS, training_rows
    from slurm_ext.history.store import open_history
    from slurm_ext.training.challenge import train
    from slurm_ext.training.dataset import examples
    from slurm_ext.training.scaling_challenge import challenge
    from slurm_ext.training.scaling_history import rows
    from slurm_ext.training.slowdown_challenge import challenge as challenge_sharing
    from slurm_ext.training.slowdown_history import learnt

    state = load(args.config).state_dir
    with open_history(state / "history.db", read_only=True) as history:
        every = examples(training_rows(history), TRAINING_COLUMNS)
        growing = rows(training_rows(history), TRAINING_COLUMNS)
        sharing = learnt(history)
    report = train(every, state / "models", seed=args.seed, told=_progress)
    grown = challenge(growing, state / "models")
    shared = challenge_sharing(sharing, state / "models")
    _print(report, grown, shared, as_json=args.json)
    return 0


def _progress(step: int, loss: float) -> None:
    if step % 100 == 0:
        print(f"step {step}: loss {loss:.3f}", file=sys.stderr)


def _print(
    report: "Report", scaling: "ScalingReport", sharing: "SharingReport", *, as_json: bool
) -> None:
    if as_json:
        import json
        from dataclasses import asdict

        others = {"scaling": asdict(scaling), "sharing": asdict(sharing)}
        print(json.dumps({**asdict(report), **others}))
        return
    verdict = f"promoted {report.model}" if report.promoted else "not promoted"
    print(f"{verdict}: {report.why} ({report.runs} runs)")
    for name, score in (report.scores or {}).items():
        if score:
            inside = (
                f", 90 % interval holds {score['coverage90']:.0%}" if "coverage90" in score else ""
            )
            print(f"  {name:<9} error {score['mae']:.3f} (mean absolute log){inside}")
    growth = f"promoted {scaling.model}" if scaling.promoted else "not promoted"
    print(f"growth with GPUs: {growth}: {scaling.why}")
    together = f"promoted {sharing.model}" if sharing.promoted else "not promoted"
    print(f"sharing: {together}: {sharing.why} ({sharing.runs} runs of {sharing.pairs} pairs)")
    for name, score in (sharing.scores or {}).items():
        if score:
            print(f"  {name:<9} error {score['mae']:.3f} of a job's speed alone")
