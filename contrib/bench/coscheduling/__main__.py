"""Makespan of ten real jobs of one core on a node with room for two, by policy.

    python -m contrib.bench.coscheduling [--json] [--quick] [--matrix FILE] [--live N]
        [--results FILE] [--most N] [--work DIR]

Six kernels and four trainings (kernels.py) arrive in random orders. First, every job is measured
alone and beside every other on two cores of this machine (--matrix keeps the rates in a file, or
reads them from there). Then:

  replay  20 orders of jobs of ten minutes, with the measured speeds, by six policies: FIFO pairing
          (Slurm's rule: the first in the queue takes the free slot), random, never sharing, the
          oracle (dlqueue's policy with the measured speeds), dlqueue cold (nothing known) and
          dlqueue warm (the product's model after 10 earlier FIFO orders, each measurement with the
          noise of one run). No policy can end an order before replay_least_possible_s
          (lower_bound.py), and none that keeps the floor before replay_least_at_floor_s; Slurm
          reaches neither, because both bounds separate and join jobs at will.
  live    N of these orders on a private Slurm, by FIFO pairing and dlqueue warm; the last one by
          dlqueue cold and the oracle, too. They are the middles of N equal parts of the 20, ranked
          by FIFO's replayed makespan, which differs from order to order more than anything else;
          --live 20 plays all. The product's own loop controls real jobs of LIVE_S seconds. The
          start-up of Python and torch counts in the makespan, not in speeds. live_by_matrix is the
          difference between the speeds of these runs and those of the replay.

Co-scheduling is for jobs of minutes to hours. Slurm (any version) starts a delayed job up to one
second late. Jobs last 16 s, so that this second is small for every policy alike and a whole run (3
minutes of pairs, 8 live runs of about 105 s) takes less than 20 minutes. Slurm's scheduler
parameters are the sandbox's own, the same for all.

--results keeps every live run as it ends and uses the runs that are there: with --most N, this call
plays at most N, and the report has all. The machine has to be quiet: matrix.queued_share is the
share of time that other programs took; above 0.05 the figures mean nothing.

By policy: makespan_s (mean over orders), worst_ratio_to_solo (the slowest job of all orders),
share_below_floor (of jobs, by their whole run), longest_below_floor_s, and live idle_s (time of
the node's slots that no job used while some job waited).
"""

import argparse
import json
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from contrib.bench.common import program
from contrib.bench.coscheduling import live_runs
from contrib.bench.coscheduling.kernels import make_files
from contrib.bench.coscheduling.live import Site, up
from contrib.bench.coscheduling.lower_bound import least_s
from contrib.bench.coscheduling.matrix import Matrix, measure
from contrib.bench.coscheduling.policies import (
    FLOOR,
    Measured,
    alone,
    at_random,
    fifo,
    learned,
    steered,
)
from contrib.bench.coscheduling.replay import Chooser, Job, replay
from slurm_ext.model.slowdown.model import SlowdownModel
from slurm_ext.policy.colocation.choose_pairs import SpeedPredictor
from slurm_ext.policy.colocation.colocation_monitor import PATIENCE_S

ORDERS = 20
EARLIER = 10  # orders that the warm one has learned from
WORK_S = 600.0  # of a replayed job, alone
LIVE_S = 16.0  # of a live one
QUICK_S = 5.0  # with --quick


def result(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The benchmark's last line."""
    matrix = _matrix(args, folder)
    speed = {names: min(1.0, value) for names, value in matrix.speed.items()}
    warm = learned(_earlier(matrix, speed), random.Random(1))
    replayed = _replayed(matrix, speed, warm)
    live = _live(args, folder, matrix, warm) if args.live else {"live": {}}
    figures = {"replay": replayed, **live, "matrix": matrix.as_json(), "quick": args.quick}
    for name, floor in (("possible", 0.0), ("at_floor", FLOOR)):
        least = least_s(sorted(matrix.solo), speed, floor=floor, work_s=WORK_S)
        figures[f"replay_least_{name}_s"] = round(least, 1)
    return {
        "bench": "coscheduling",
        "figures": figures,
        "wanted": _wanted(replayed, live.get("live", {})),
    }


def _matrix(args: argparse.Namespace, folder: Path) -> Matrix:
    if args.matrix and args.matrix.exists():
        return Matrix.from_json(json.loads(args.matrix.read_text()))
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("pairs measured", total=1.0)
        matrix = measure(
            folder,
            seconds=0.4 if args.quick else 0.7,
            repeats=1 if args.quick else 3,
            progress=lambda share: progress.update(task, completed=share),
        )
    if args.matrix:
        args.matrix.write_text(json.dumps(matrix.as_json()))
    return matrix


# -- replay -----------------------------------------------------------------------------------


def _order(matrix: Matrix, seed: int) -> list[str]:
    kinds = sorted(matrix.solo)
    random.Random(seed).shuffle(kinds)
    return kinds


def _jobs(matrix: Matrix, seed: int) -> list[Job]:
    order = enumerate(_order(matrix, seed))
    return [Job(name=f"{number:02}", kind=kind, work_s=WORK_S) for number, kind in order]


def _earlier(matrix: Matrix, speed: Mapping[tuple[str, str], float]) -> list[list[Job]]:
    orders = []
    for seed in range(1000, 1000 + EARLIER):
        jobs = _jobs(matrix, seed)
        replay(jobs, fifo, speed, floor=FLOOR)
        orders.append(jobs)
    return orders


def _replayed(
    matrix: Matrix, speed: Mapping[tuple[str, str], float], warm: SpeedPredictor
) -> dict[str, Any]:
    rows: dict[str, list[tuple[float, list[Job], dict[str, float]]]] = {}
    for seed in range(ORDERS):
        for name, predictor in _knowing(speed, warm).items():
            bounds: dict[str, float] = {}

            def keep_lowest(job: str, low: float, bounds: dict[str, float] = bounds) -> None:
                bounds[job] = min(low, bounds.get(job, 1.0))

            plain = {"fifo": fifo, "random": at_random(seed), "never": alone}
            choose: Chooser = (
                plain[name] if predictor is None else steered(predictor, on_bound=keep_lowest)
            )
            jobs = _jobs(matrix, seed)
            rows.setdefault(name, []).append(
                (replay(jobs, choose, speed, floor=FLOOR), jobs, bounds)
            )
    return {name: _order_figures(orders) for name, orders in rows.items()}


def _knowing(
    speed: Mapping[tuple[str, str], float], warm: SpeedPredictor
) -> dict[str, SpeedPredictor | None]:
    plain: dict[str, SpeedPredictor | None] = dict.fromkeys(("fifo", "random", "never"))
    return {**plain, "oracle": Measured(speed), "cold": SlowdownModel(), "warm": warm}


def _order_figures(orders: Sequence[tuple[float, list[Job], dict[str, float]]]) -> dict[str, Any]:
    jobs = [(job, bounds.get(job.name)) for _, order, bounds in orders for job in order]
    kept = [job.ratio >= bound for job, bound in jobs if bound is not None]
    return {
        "makespan_s": round(mean(makespan for makespan, _, _ in orders), 1),
        "worst_ratio_to_solo": round(min(job.ratio for job, _ in jobs), 3),
        "share_below_floor": round(mean(job.ratio < FLOOR for job, _ in jobs), 3),
        "longest_below_floor_s": round(max(job.below_s for job, _ in jobs), 1),
        "share_at_bound": round(mean(kept), 3) if kept else None,
        "orders": len(orders),
    }


# -- live -------------------------------------------------------------------------------------


def _live(
    args: argparse.Namespace, folder: Path, matrix: Matrix, warm: SpeedPredictor
) -> dict[str, Any]:
    speed = {names: min(1.0, value) for names, value in matrix.speed.items()}
    policies = {"fifo": None, "warm": warm, "cold": SlowdownModel(), "oracle": Measured(speed)}
    seconds = QUICK_S if args.quick else LIVE_S
    runs = live_runs.load(args.results, matrix, seconds)
    chosen = live_runs.spread(_by_fifo(matrix, speed), args.live)
    todo = [run for run in live_runs.plan(list(policies), chosen) if run not in runs]
    if todo[: args.most]:
        orders = {number: _order(matrix, number) for _, number in todo}
        with up(folder / "slurm") as sandbox:
            site = Site(sandbox, folder / "data", matrix, seconds)
            for done in live_runs.play(site, runs, todo[: args.most], policies, orders):
                live_runs.keep(args.results, matrix, seconds, done)
    figures: dict[str, Any] = live_runs.figures_of(runs, matrix)
    return figures


def _by_fifo(matrix: Matrix, speed: Mapping[tuple[str, str], float]) -> dict[int, float]:
    """Replayed makespan of each order."""
    orders = {seed: _jobs(matrix, seed) for seed in range(ORDERS)}
    return {seed: replay(jobs, fifo, speed, floor=FLOOR) for seed, jobs in orders.items()}


# -- told -------------------------------------------------------------------------------------


def _wanted(replayed: Mapping[str, Any], live: Mapping[str, Any]) -> list[dict[str, Any]]:
    return _rows("replay", replayed) + (_rows("live", live) if "warm" in live else [])


def _rows(how: str, by_policy: Mapping[str, Any]) -> list[dict[str, Any]]:
    warm = by_policy["warm"]
    bound, longest = warm["share_at_bound"], warm["longest_below_floor_s"]
    return [
        _most(f"{how}: makespan by FIFO pairing's", by_policy, "fifo", 0.89),
        _most(f"{how}: makespan by the oracle's", by_policy, "oracle", 1.05),
        program.row(
            f"{how}: share at or above its bound, at least", 0.95, bound, met=(bound or 0) >= 0.95
        ),
        program.row(
            f"{how}: longest below the floor, s", PATIENCE_S, longest, met=longest <= PATIENCE_S
        ),
    ]


def _most(what: str, by_policy: Mapping[str, Any], base: str, target: float) -> dict[str, Any]:
    if "makespans_s" in by_policy["warm"]:
        got = live_runs.ratio(by_policy, base)
    else:
        got = by_policy["warm"]["makespan_s"] / by_policy[base]["makespan_s"]
    got = None if got is None else round(got, 3)
    met = got is not None and got <= target
    row: dict[str, Any] = program.row(what, target, got, met=met)
    return row


def _print(figures: Mapping[str, Any]) -> None:
    for how in ("replay", "live"):
        table = Table("policy", title=how, box=None)
        names = ("makespan_s", "worst_ratio_to_solo", "share_below_floor", "longest_below_floor_s")
        for name in (*names, "share_at_bound"):
            table.add_column(name, justify="right")
        for policy, row in figures.get(how, {}).items():
            cells = [row[name] for name in (*names, "share_at_bound")]
            table.add_row(policy, *("-" if cell is None else str(cell) for cell in cells))
        Console().print(table)


def main() -> None:
    """Measure, replay, play and print; exit 1 where kept runs cannot be used or a job fails."""
    parser = program.options(__doc__, quick="short pairs, one live order")
    parser.add_argument("--matrix", type=Path, help="keep the measured pairs there, or take them")
    parser.add_argument(
        "--live",
        type=int,
        choices=range(ORDERS + 1),
        metavar="N",
        help="orders that are run on a private Slurm",
    )
    parser.add_argument("--results", type=Path, help="keep live runs there, and take them")
    parser.add_argument("--most", type=int, help="live runs to play in this call; default: all")
    parser.add_argument("--work", type=Path, help="folder on the disk to measure")
    program.run(parser, _in_a_folder, lambda result: _print(result["figures"]))


def _in_a_folder(args: argparse.Namespace) -> dict[str, Any]:
    if args.live is None:
        args.live = 1 if args.quick else 3
    with tempfile.TemporaryDirectory(prefix="pairs", dir=args.work) as folder:
        Path(folder).chmod(0o755)  # munge demands it of the sandbox's folder
        make_files(Path(folder) / "data")
        return result(args, Path(folder))


if __name__ == "__main__":
    main()
