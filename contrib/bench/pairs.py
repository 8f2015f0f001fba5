"""Who should run beside whom: ten real jobs of one core on a node with room for two.

    pairs.py [--json] [--quick] [--matrix FILE] [--live N] [--work FOLDER]

Six kernels and four trainings (pairs_kernels.py says which and why) come in random orders. First
every job is measured alone and beside every other on two cores of this machine (--matrix keeps that
in a file, or takes it from there). Then:

  replay  20 orders of jobs of ten minutes, with the measured speeds, by six policies: FIFO pairing
          (what Slurm does: the first in the queue takes the free slot), random, never sharing, the
          oracle (dlqueue's policy with the measured speeds themselves), dlqueue cold (nothing
          known) and dlqueue warm (the product's model after 10 earlier FIFO orders, each of whose
          measurements has the noise of one run)
          On this node no order can end before half of all the work: replay_least_possible_s.
  live    N orders on a private Slurm, by FIFO pairing, dlqueue cold and dlqueue warm in turn: the
          product's own controller steers real jobs of a few seconds. Start-up of Python and torch
          is inside the makespan, not inside speeds. live_by_matrix says how
          far the speeds of these runs are from those that the replay uses.

By policy: makespan_s (mean over orders), worst_ratio_to_solo (the slowest job of all orders),
share_below_floor (of jobs, by their whole run), and longest_below_floor_s.
"""

import argparse
import json
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from pairs_kernels import make_files  # type: ignore[import-not-found]  # beside this file
from pairs_live import (  # type: ignore[import-not-found]  # beside this file
    Ran,
    Site,
    makespan_s,
    together,
    up,
)
from pairs_matrix import Matrix, measure  # type: ignore[import-not-found]
from pairs_policies import (  # type: ignore[import-not-found]
    FLOOR,
    Measured,
    alone,
    at_random,
    fifo,
    learned,
    steered,
)
from pairs_replay import SLOTS, Chooser, Job, replay  # type: ignore[import-not-found]
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from slurm_ext.model.slowdown import Slowdowns
from slurm_ext.policy.companions import PATIENCE_S
from slurm_ext.policy.sharing import Foretells

ORDERS = 20
EARLIER = 10  # orders that the warm one has learned from
WORK_S = 600.0  # of a replayed job, alone
LIVE_S = 10.0  # of a live one


def result(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """What is printed."""
    matrix = _matrix(args, folder)
    speed = {names: min(1.0, value) for names, value in matrix.speed.items()}
    warm = learned(_earlier(matrix, speed), random.Random(1))
    replayed = _replayed(matrix, speed, warm)
    live = _live(args, folder, matrix, warm) if args.live else {"live": {}}
    figures = {"replay": replayed, **live, "matrix": matrix.as_json(), "quick": args.quick}
    figures["replay_least_possible_s"] = WORK_S * len(matrix.solo) / SLOTS
    return {"bench": "pairs", "figures": figures, "wanted": _wanted(replayed, live.get("live", {}))}


def _matrix(args: argparse.Namespace, folder: Path) -> Matrix:
    if args.matrix and args.matrix.exists():
        return Matrix.from_json(json.loads(args.matrix.read_text()))
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("pairs measured", total=1.0)
        matrix = measure(
            folder,
            seconds=0.5 if args.quick else 1.0,
            repeats=1 if args.quick else 3,
            told=lambda share: progress.update(task, completed=share),
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
    found = []
    for seed in range(1000, 1000 + EARLIER):
        jobs = _jobs(matrix, seed)
        replay(jobs, fifo, speed, floor=FLOOR)
        found.append(jobs)
    return found


def _replayed(
    matrix: Matrix, speed: Mapping[tuple[str, str], float], warm: Foretells
) -> dict[str, Any]:
    rows: dict[str, list[tuple[float, list[Job], dict[str, float]]]] = {}
    for seed in range(ORDERS):
        for name, known in _knowing(speed, warm).items():
            bounds: dict[str, float] = {}

            def told(job: str, low: float, bounds: dict[str, float] = bounds) -> None:
                bounds[job] = min(low, bounds.get(job, 1.0))

            plain = {"fifo": fifo, "random": at_random(seed), "never": alone}
            choose: Chooser = plain[name] if known is None else steered(known, told=told)
            jobs = _jobs(matrix, seed)
            rows.setdefault(name, []).append(
                (replay(jobs, choose, speed, floor=FLOOR), jobs, bounds)
            )
    return {name: _told_of(orders) for name, orders in rows.items()}


def _knowing(
    speed: Mapping[tuple[str, str], float], warm: Foretells
) -> dict[str, Foretells | None]:
    plain: dict[str, Foretells | None] = dict.fromkeys(("fifo", "random", "never"))
    return {**plain, "oracle": Measured(speed), "cold": Slowdowns(), "warm": warm}


def _told_of(orders: Sequence[tuple[float, list[Job], dict[str, float]]]) -> dict[str, Any]:
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
    args: argparse.Namespace, folder: Path, matrix: Matrix, warm: Foretells
) -> dict[str, Any]:
    policies: dict[str, Foretells | None] = {"fifo": None, "warm": warm, "cold": Slowdowns()}
    rows: dict[str, list[list[Ran]]] = {name: [] for name in policies}
    console = Console(stderr=True)
    with up(folder / "slurm") as sandbox:
        site = Site(sandbox, folder / "data", matrix, LIVE_S)
        for number in range(args.live):
            names = list(policies)[number % 3 :] + list(policies)[: number % 3]
            for name in names:
                ran = site.play(_order(matrix, number), policies[name])
                rows[name].append(ran)
                console.print(f"live {number} {name}: {makespan_s(ran):.1f} s")
    told = {name: _told_of_live(orders) for name, orders in rows.items()}
    return {"live": told, "live_by_matrix": _by_matrix(matrix, rows)}


def _by_matrix(matrix: Matrix, rows: Mapping[str, Sequence[Sequence[Ran]]]) -> dict[str, float]:
    """How far speeds seen live are from those that the replay uses."""
    seen = [row for orders in rows.values() for order in orders for row in together(order)]
    off = [min(1.2, one.speed) - matrix.speed[one.job, one.partners[0]] for one in seen]
    return {"pairs": len(off), "mae": round(mean(map(abs, off)), 3), "bias": round(mean(off), 3)}


def _told_of_live(orders: Sequence[Sequence[Ran]]) -> dict[str, Any]:
    jobs = [(one, one.speed()) for order in orders for one in order]
    known = [(one, speed) for one, speed in jobs if speed is not None]
    kept = [speed >= one.bound for one, speed in known if one.bound is not None]
    return {
        "makespan_s": round(mean(makespan_s(order) for order in orders), 2),
        "makespans_s": [round(makespan_s(order), 2) for order in orders],
        "worst_ratio_to_solo": round(min(speed for _, speed in known), 3),
        "share_below_floor": round(mean(speed < FLOOR for _, speed in known), 3),
        "longest_below_floor_s": round(max(one.below_s(FLOOR) for one, _ in known), 1),
        "share_at_bound": round(mean(kept), 3) if kept else None,
        "orders": len(orders),
    }


# -- told -------------------------------------------------------------------------------------


def _wanted(replayed: Mapping[str, Any], live: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = _rows("replay", replayed)
    rows.append(_most("replay: makespan by the oracle's", replayed, "oracle", 1.05))
    return rows + (_rows("live", live) if live else [])


def _rows(how: str, told: Mapping[str, Any]) -> list[dict[str, Any]]:
    warm = told["warm"]
    bound, longest = warm["share_at_bound"], warm["longest_below_floor_s"]
    return [
        _most(f"{how}: makespan by FIFO pairing's", told, "fifo", 0.89),
        _row(f"{how}: share at or above its bound, at least", 0.95, bound, (bound or 0) >= 0.95),
        _row(f"{how}: longest below the floor, s", PATIENCE_S, longest, longest <= PATIENCE_S),
    ]


def _most(what: str, told: Mapping[str, Any], base: str, target: float) -> dict[str, Any]:
    got = round(told["warm"]["makespan_s"] / told[base]["makespan_s"], 3)
    return _row(what, target, got, got <= target)


def _row(what: str, target: float, got: float | None, met: bool) -> dict[str, Any]:
    return {"what": what, "target": target, "got": got, "met": bool(met)}


def _print(figures: Mapping[str, Any]) -> None:
    for how in ("replay", "live"):
        table = Table("policy", title=how, box=None)
        names = ("makespan_s", "worst_ratio_to_solo", "share_below_floor", "longest_below_floor_s")
        for name in (*names, "share_at_bound"):
            table.add_column(name, justify="right")
        for policy, told in figures[how].items():
            cells = [told[name] for name in (*names, "share_at_bound")]
            table.add_row(policy, *("-" if cell is None else str(cell) for cell in cells))
        Console().print(table)


def main() -> int:
    """Measure, replay, play and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    parser.add_argument("--quick", action="store_true", help="half-second pairs, one live order")
    parser.add_argument("--matrix", type=Path, help="keep the measured pairs there, or take them")
    parser.add_argument("--live", type=int, help="orders that are run on a private Slurm")
    parser.add_argument("--work", type=Path, help="folder on the disk to measure")
    args = parser.parse_args()
    args.live = (1 if args.quick else 3) if args.live is None else args.live
    with tempfile.TemporaryDirectory(prefix="pairs", dir=args.work) as folder:
        Path(folder).chmod(0o755)  # munge demands it of the sandbox's folder
        make_files(Path(folder) / "data")
        told = result(args, Path(folder))
    if not args.json:
        _print(told["figures"])
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
