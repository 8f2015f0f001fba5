"""`dlqueue recommend --nodes TABLE`: the cheapest and the fastest nodes for what is left to do.

Schema of --json: questions/recommend/nodes.py.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_ext.core.settings.document import Settings

OPTIONS = (
    "deadline",
    "budget",
    "samples",
    "gradient_bytes",
    "html",
)  # that mean nothing without --nodes


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this kind of recommendation."""
    group = parser.add_argument_group("node types (which nodes are cheapest and fastest)")
    group.add_argument(
        "--nodes",
        metavar="FILE",
        help="TOML with a [[node]] for each type: name, gpu, gpus, cores, price_per_hour; or"
        " `slurm`: this cluster's, at its TRESBillingWeights",
    )
    group.add_argument("--deadline", type=_seconds, metavar="TIME", help="as sbatch's --time")
    group.add_argument("--budget", type=_amount, metavar="N", help="in the table's currency")
    group.add_argument(
        "--samples", type=_amount, metavar="N", help="samples still to train on (default: a run's)"
    )
    group.add_argument(
        "--gradient-bytes",
        type=_amount,
        metavar="N",
        help="of the model: four a parameter in single precision (default: its runs' on two or more"
        " GPUs); with it, other trainings tell what it sends",
    )
    group.add_argument("--html", type=Path, metavar="FILE", help="write a page with a plot, too")


def is_wanted(args: argparse.Namespace) -> bool:
    """True if this kind of recommendation is wanted. Raises UsageError for half of a question."""
    from slurm_ext.core.errors import UsageError

    options = [name for name in OPTIONS if getattr(args, name) is not None]
    if args.nodes is None and options:
        raise UsageError(f"--{options[0].replace('_', '-')} goes with --nodes")
    return args.nodes is not None


def run(args: argparse.Namespace, settings: "Settings") -> int:
    """Print the recommendation; raises UsageError, InputError, HistoryError, SlurmError."""
    from slurm_ext.cli.common.output import put_file, tell
    from slurm_ext.cli.recommend.fields import fields_of
    from slurm_ext.cli.recommend.nodes_text import lines, page
    from slurm_ext.questions.answers import document_of
    from slurm_ext.questions.recommend.node_table import read_table
    from slurm_ext.questions.recommend.nodes import SLURM

    table = SLURM if args.nodes == SLURM else read_table(Path(args.nodes))
    fields = {**fields_of(args), "table": table}
    fields |= {"deadline_s": args.deadline, "budget": args.budget, "samples": args.samples}
    fields |= {"gradient_bytes": args.gradient_bytes}
    document = {**document_of(settings, "nodes", **fields), "job": args.script or args.name}
    tell(document, lines, as_json=args.json)
    if args.html is not None:
        put_file(args.html, page(document))
    return 0


def _seconds(text: str) -> float:
    from slurm_ext.core.units import parse_minutes

    try:
        minutes = parse_minutes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not minutes:
        raise argparse.ArgumentTypeError(f"{text!r} is no time that a job could take")
    return 60 * minutes


def _amount(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e18:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value
