"""Live runs of orders by policies: their choice, their file and their figures.

A run is one order by one policy. Runs are kept in a file as they end, so that a proof that takes
longer than a machine stays quiet is played in pieces, and reported as one.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import mean
from typing import Any

from rich.console import Console

from contrib.bench.coscheduling.live import Ran, Site, idle_s, makespan_s, together
from contrib.bench.coscheduling.matrix import Matrix
from contrib.bench.coscheduling.policies import FLOOR
from slurm_ext.core.errors import InputError
from slurm_ext.policy.colocation.choose_pairs import SpeedPredictor

Runs = dict[tuple[str, int], list[Ran]]  # by policy and order
ONCE = ("cold", "oracle")  # are played in the last order only: the hardest for FIFO


def spread(fifo_s: Mapping[int, float], count: int) -> list[int]:
    """So many of the orders as stand for all: the middles of equal parts, by FIFO's replay.

    Whether FIFO meets a bad pair at all differs from order to order more than anything else.
    """
    ranked = sorted(fifo_s, key=lambda number: (fifo_s[number], number))
    return [ranked[(2 * at + 1) * len(ranked) // (2 * count)] for at in range(count)]


def plan(policies: Sequence[str], orders: Sequence[int]) -> Iterator[tuple[str, int]]:
    """All runs; which policy comes first changes from order to order."""
    for number in orders:
        at = orders.index(number) % len(policies)
        for name in (*policies[at:], *policies[:at]):
            if number == orders[-1] or name not in ONCE:
                yield name, number


def load(path: Path | None, matrix: Matrix, seconds: float) -> Runs:
    """The runs kept there, of jobs that long alone.

    Raises InputError where they are of another matrix or length, or not readable.
    """
    if path is None or not path.exists():
        return {}
    try:
        body = json.loads(path.read_text())
        of, rows = (body["seconds"], body["solo"]), body["runs"]
        runs = {(row["policy"], row["order"]): [Ran(**one) for one in row["ran"]] for row in rows}
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(str(path), f"holds no live runs: {error!r}; remove it") from None
    if of != (seconds, dict(matrix.solo)):
        raise InputError(str(path), "holds runs of jobs of other lengths; remove it")
    return runs


def keep(path: Path | None, matrix: Matrix, seconds: float, runs: Runs) -> None:
    """Replace it."""
    if path is None:
        return
    rows = [
        {"policy": policy, "order": number, "ran": [asdict(one) for one in ran]}
        for (policy, number), ran in runs.items()
    ]
    part = path.with_suffix(".part")
    of = {"seconds": seconds, "solo": dict(matrix.solo)}
    part.write_text(json.dumps({**of, "runs": rows}))
    part.replace(path)


def play(
    site: Site,
    runs: Runs,
    todo: Sequence[tuple[str, int]],
    known: Mapping[str, SpeedPredictor | None],
    orders: Mapping[int, Sequence[str]],
) -> Iterator[Runs]:
    """One run after another; the runs by now after each."""
    console = Console(stderr=True)
    for name, number in todo:
        ran = site.play(orders[number], known[name])
        runs[name, number] = ran
        text = f"{makespan_s(ran):.1f} s, {idle_s(ran):.1f} slot-seconds idle"
        console.print(f"live {number} {name}: {text}")
        yield runs


def figures_of(runs: Runs, matrix: Matrix) -> dict[str, Any]:
    """By policy; and how far these speeds are from those that the replay uses."""
    policies = dict.fromkeys(name for name, _ in runs)
    rows = {
        policy: {number: ran for (name, number), ran in sorted(runs.items()) if name == policy}
        for policy in policies
    }
    by_policy = {name: _of_policy(orders) for name, orders in rows.items()}
    return {"live": by_policy, "live_by_matrix": _by_matrix(matrix, runs)}


def ratio(live: Mapping[str, Any], base: str) -> float | None:
    """Warm's makespan by that of `base`, over the orders that both played; None: there is none."""
    if base not in live or "warm" not in live:
        return None
    ours, theirs = live["warm"]["makespans_s"], live[base]["makespans_s"]
    both = [number for number in ours if number in theirs]
    if not both:
        return None
    return float(sum(ours[n] for n in both) / sum(theirs[n] for n in both))


def _of_policy(orders: Mapping[int, Sequence[Ran]]) -> dict[str, Any]:
    jobs = [(one, one.speed()) for order in orders.values() for one in order]
    known = [(one, speed) for one, speed in jobs if speed is not None]
    kept = [speed >= one.bound for one, speed in known if one.bound is not None]
    return {
        "makespan_s": round(mean(makespan_s(order) for order in orders.values()), 2),
        "makespans_s": {str(n): round(makespan_s(order), 2) for n, order in orders.items()},
        "idle_s": round(mean(idle_s(order) for order in orders.values()), 2),
        "worst_ratio_to_solo": round(min(speed for _, speed in known), 3),
        "share_below_floor": round(mean(speed < FLOOR for _, speed in known), 3),
        "longest_below_floor_s": round(max(one.below_s(FLOOR) for one, _ in known), 1),
        "share_at_bound": round(mean(kept), 3) if kept else None,
        "orders": len(orders),
    }


def _by_matrix(matrix: Matrix, runs: Runs) -> dict[str, Any]:
    """Difference between speeds seen live and those that the replay uses."""
    measured = [row for ran in runs.values() for row in together(ran)]
    off = [min(1.2, one.speed) - matrix.speed[one.job, one.partners[0]] for one in measured]
    if not off:
        return {"pairs": 0}
    return {"pairs": len(off), "mae": round(mean(map(abs, off)), 3), "bias": round(mean(off), 3)}
