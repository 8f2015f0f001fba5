"""`dlqueue recommend --nodes TABLE`: the cheapest and the fastest nodes for what is left to do.

Schema of --json: `{v, job, level, samples, startup_s, deadline_s, budget, cheapest, fastest,
likeliest, front, shapes, left_out, missing}`. A shape is {node, nodes, gpus, batch, samples_per_s,
low, high, time_s, time_low_s, time_high_s, cost, cost_low, cost_high, limit, rests_on, certain};
`front` has those that no other one beats in both time and cost; `likeliest` is the shape with the
best `chance` of meeting a deadline that none is sure to meet.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_ext.advisor.what_if.node_rates import Evidence, NodeRates
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.history.views.gpu_runs import GpuRun
    from slurm_ext.model.throughput.inversion import LogNormal
    from slurm_ext.policy.node_shapes import NodeType, PricedShape

SLURM = "slurm"
OPTIONS = ("deadline", "budget", "samples", "html")  # that mean nothing without --nodes


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
    group.add_argument("--html", type=Path, metavar="FILE", help="write a page with a plot, too")


def asked(args: argparse.Namespace) -> bool:
    """True if this kind of recommendation is wanted. Raises UsageError for half of a question."""
    from slurm_ext.core.errors import UsageError

    stray = [name for name in OPTIONS if getattr(args, name) is not None]
    if args.nodes is None and stray:
        raise UsageError(f"--{stray[0]} goes with --nodes")
    return args.nodes is not None


def run(args: argparse.Namespace, settings: "Settings") -> int:
    """Print the recommendation; raises UsageError, InputError, HistoryError, SlurmError."""
    from slurm_ext.cli.common.output import put_file, tell
    from slurm_ext.cli.recommend.nodes_text import lines, page

    document = recommended(args, settings)
    tell(document, lines, as_json=args.json)
    if args.html is not None:
        put_file(args.html, page(document))
    return 0


def recommended(args: argparse.Namespace, settings: "Settings") -> dict[str, Any]:
    """The document; nothing is recommended where something is `missing`."""
    from slurm_ext.advisor.what_if.run_length import work_of
    from slurm_ext.policy.node_shapes import TrainingGoal, choose_nodes

    table = _table(args.nodes, settings)
    evidence, rates = _rates(args, settings, table)
    work, why = work_of(evidence)
    samples = args.samples or (work.samples if work else None)
    level = next((level.value for level, runs in evidence.items() if runs), None)
    document: dict[str, Any] = {"v": 1, "job": args.script or args.name, "level": level}
    document |= {"samples": samples, "deadline_s": args.deadline, "budget": args.budget}
    document |= {"startup_s": work.outside_s.high if work else 0.0, "missing": []}
    document |= {"cheapest": None, "fastest": None, "likeliest": None, "front": [], "shapes": []}
    document["left_out"] = dict(rates.left_out)
    if samples is None:
        document["missing"].append(f"how many samples are left (--samples): {why}")
        return document
    goal = TrainingGoal(
        samples=samples,
        startup_s=document["startup_s"],
        deadline_s=args.deadline,
        budget=args.budget,
    )
    choice = choose_nodes(rates.shapes, goal)
    document["cheapest"] = choice.cheapest and as_json(choice.cheapest)
    document["fastest"] = choice.fastest and as_json(choice.fastest)
    if choice.likeliest is not None and args.deadline is not None:
        chance = choice.likeliest.chance(args.deadline)
        document["likeliest"] = {**as_json(choice.likeliest), "chance": chance}
    document["front"] = [as_json(one) for one in choice.front]
    document["shapes"] = [as_json(one) for one in choice.every]
    document["missing"] += _missing(rates)
    return document


def as_json(one: "PricedShape") -> dict[str, Any]:
    """One shape of the document."""
    shape = one.shape
    return {
        "node": shape.node.name,
        "nodes": shape.nodes,
        "gpus": shape.gpus,
        "batch": shape.batch,
        "samples_per_s": shape.samples_per_s,
        "low": shape.interval.low,
        "high": shape.interval.high,
        "time_s": one.time_s,
        "time_low_s": one.time.low,
        "time_high_s": one.time.high,
        "cost": one.cost,
        "cost_low": one.cost_bounds.low,
        "cost_high": one.cost_bounds.high,
        "limit": shape.limit,
        "rests_on": shape.rests_on,
        "certain": one.certain,
    }


def _missing(rates: "NodeRates") -> list[str]:
    if rates.shapes:
        return []
    return ["a rate on any node of the table: see what was left out"]


def _table(named: str, settings: "Settings") -> tuple["NodeType", ...]:
    from slurm_ext.cli.recommend.node_table import read_table

    if named != SLURM:
        return read_table(Path(named))
    from slurm_ext.advisor.limits.rules import client_of
    from slurm_ext.cli.recommend.billing import slurm_table

    client = client_of(settings)
    flags = client.config().get("PriorityFlags", "")
    return slurm_table(client.nodes(), client.partitions(), max_tres="MAX_TRES" in flags.upper())


def _rates(
    args: argparse.Namespace, settings: "Settings", table: tuple["NodeType", ...]
) -> tuple["Evidence", "NodeRates"]:
    """The runs, and the rate of every shape. Raises HistoryError."""
    from slurm_ext.advisor.what_if.node_rates import RunFacts, node_rates
    from slurm_ext.cli.common.models import scaling_family
    from slurm_ext.cli.recommend.keys import keys_asked
    from slurm_ext.history.store.store import open_history
    from slurm_ext.history.views.gpu_runs import gpu_runs
    from slurm_ext.history.views.lookup import similar_runs
    from slurm_ext.history.views.speed_rows import speed_rows

    path, keys = settings.state_dir / "history.db", keys_asked(args)
    wait_ms = settings["history.busy_timeout_ms"]
    with open_history(path, busy_timeout_ms=wait_ms, read_only=True) as history:
        near = [one for level, key in keys.items() for one in gpu_runs(history, level, key)]
        rows = speed_rows(history)
    evidence = similar_runs(path, keys)
    known = RunFacts(
        evidence=evidence,
        family=scaling_family(settings),
        busy=_busy(near),
        most_batch=args.most_batch,
    )
    return evidence, node_rates(known, table, _gain_of(rows))


def _gain_of(rows: Any) -> "Callable[[str, str], LogNormal | None]":
    """Gain of the next training from one GPU model to a type, by what others ran on both."""
    from slurm_ext.core.gpu_request import is_model
    from slurm_ext.model.scaling.gpu_speed import GpuRate, gain

    def gained(here: str, kind: str) -> "LogNormal | None":
        named = ((row, kind if is_model(kind, row.gpu_model) else row.gpu_model) for row in rows)
        rates = (
            GpuRate(training=row.training, user=row.user, gpu=gpu, samples_per_s=row.samples_per_s)
            for row, gpu in named
            if gpu is not None
        )
        return gain(rates, here, kind)

    return gained


def _busy(runs: "list[GpuRun]") -> float | None:
    """Share of a step in which the GPU was at work, by its utilisation; None: not counted."""
    from statistics import median

    shares = [
        run.counters["gpu_util"] * rate / got
        for run in runs
        if "gpu_util" in run.counters and not run.shared
        if (rate := _number(run, "accel_samples_per_s")) and (got := _number(run, "samples_per_s"))
    ]
    return min(1.0, median(shares)) if shares else None


def _number(run: "GpuRun", name: str) -> float:
    value = run.loader[name]
    return float(value) if isinstance(value, int | float) else 0.0


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
