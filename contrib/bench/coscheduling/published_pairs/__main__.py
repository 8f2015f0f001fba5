"""GPU throughput under dlqueue's matching, on Gavel's published pairs (V100, P100).

    python -m contrib.bench.coscheduling.published_pairs --tables DIR [--json] [--quick]

DIR holds gavel_pytorch_pairs_<gpu>.csv. 26 kinds of jobs wait for 13 GPUs, two on each; throughput
is the sum of both speeds, by GPU. The model knows a random share of the pairs and completes the
rest; policy/colocation/choose_pairs.py matches them, above a floor. Baselines with the same draw:
random pairs, random pairs that take turns if sharing loses (1.0 a GPU), and the perfect matching,
which knows every speed. Wanted is what the product does: its own floor. Jobs without a partner take
turns.
"""

import argparse
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from contrib.bench.colocation import tables
from contrib.bench.common.program import options, row, run
from slurm_ext.core.gpu_sharing import CorunMeasurement, SoloProfile
from slurm_ext.model.slowdown.model import slowdown_model
from slurm_ext.policy.colocation.choose_pairs import Candidate, SharingRules, pairs
from slurm_ext.policy.colocation.matching import best_matching
from slurm_ext.policy.colocation.terms import FLOOR

Speeds = Mapping[tuple[str, str], float]
COLUMNS = ("job_a", "job_b", "rel_a", "rel_b", "infeasible")
GPUS = ("v100", "p100")
SHARES = (0.2, 0.5, 1.0)  # of the pairs that the model has seen
FLOORS = (0.1, 0.5, FLOOR)
HOUR_S = 3600.0


def read(path: Path) -> dict[tuple[str, str], float]:
    """Speed of a job beside another; pairs that did not fit into memory are absent."""

    def row(cells: Mapping[str, str]) -> tuple[str, str, float, float] | None:
        if cells["infeasible"] != "0":
            return None
        a, b = tables.positive(cells, "rel_a"), tables.positive(cells, "rel_b")
        return cells["job_a"], cells["job_b"], a, b

    rows, _ = tables.read(path, COLUMNS, row)
    speeds = {}
    for one, other, a, b in rows:
        speeds[one, other], speeds[other, one] = a, b
    return speeds


def figures(speeds: Speeds, device: str, seeds: int) -> dict[str, Any]:
    """Throughput a GPU by policy; by share of pairs seen and floor for ours."""
    jobs = sorted({job for job, _ in speeds})
    dice = random.Random(3)
    drawn = [_random(jobs, dice) for _ in range(50 * seeds)]
    throughputs: dict[str, Any] = {
        "random": mean(_throughput(each, speeds, jobs, turns=False) for each in drawn),
        "random_with_turns": mean(_throughput(each, speeds, jobs) for each in drawn),
    }
    for floor in FLOORS:
        throughputs[f"perfect_{floor:g}"] = _throughput(_perfect(speeds, floor), speeds, jobs)
    for share in SHARES:
        for floor in FLOORS:
            runs = [_ours(speeds, jobs, device, share, floor, seed) for seed in range(seeds)]
            throughputs[f"ours_{share:g}_{floor:g}"] = {
                "throughput": mean(run["throughput"] for run in runs),
                "above_floor": mean(run["above_floor"] for run in runs),
                "matched": mean(run["matched"] for run in runs),
            }
    return throughputs


def _ours(
    speeds: Speeds, jobs: Sequence[str], device: str, share: float, floor: float, seed: int
) -> dict[str, float]:
    both = sorted({tuple(sorted(pair)) for pair in speeds})
    revealed = random.Random(seed).sample(both, round(share * len(both)))
    rows = [
        CorunMeasurement(job=a, partners=(b,), speed=speeds[a, b], seconds=HOUR_S, device=device)
        for one, other in revealed
        for a, b in dict.fromkeys(((one, other), (other, one)))
    ]
    queue = [
        Candidate(job=job, solo=SoloProfile(key=job), user="u", opted_in=True, device=device)
        for job in jobs
    ]
    rules = SharingRules(floor=floor)
    made = pairs(queue, [], slowdown_model(rows), rules=rules)
    chosen = [(pair.jobs[0], pair.jobs[1]) for pair in made]
    kept = [speeds.get(each, 0.0) >= floor for a, b in chosen for each in ((a, b), (b, a))]
    return {
        "throughput": _throughput(chosen, speeds, jobs),
        "above_floor": mean(kept) if kept else 1.0,
        "matched": 2 * len(chosen) / len(jobs),
    }


def _throughput(
    chosen: Sequence[tuple[str, str]], speeds: Speeds, jobs: Sequence[str], *, turns: bool = True
) -> float:
    """A GPU; without `turns` a pair that does not fit does nothing."""
    total = 0.0
    for a, b in chosen:
        shared = speeds.get((a, b), 0.0) + speeds.get((b, a), 0.0)
        total += max(shared, 1.0) if turns else shared
    left = len(jobs) - 2 * len(chosen)
    return (total + left / 2) / (len(jobs) / 2)


def _random(jobs: Sequence[str], dice: random.Random) -> list[tuple[str, str]]:
    order = list(jobs)
    dice.shuffle(order)
    return list(zip(order[::2], order[1::2], strict=False))


def _perfect(speeds: Speeds, floor: float) -> Sequence[tuple[str, str]]:
    allowed = [(a, b) for a, b in speeds if a < b and min(speeds[a, b], speeds[b, a]) >= floor]
    weights = {(a, b): speeds[a, b] + speeds[b, a] - 1 for a, b in allowed}
    matched: Sequence[tuple[str, str]] = best_matching({e: w for e, w in weights.items() if w > 0})
    return matched


def _wanted(figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    gains = {
        f"{gpu} {name}": one["throughput"] / rows["random_with_turns"]
        for gpu, rows in figures.items()
        for name, one in rows.items()
        if name == f"ours_0.5_{FLOOR:g}"
    }
    above = min(rows[f"ours_0.5_{FLOOR:g}"]["above_floor"] for rows in figures.values())
    what = f"half of the pairs seen, none to fall below {FLOOR:g} of its speed"
    rows = [
        (f"{what}, by random with turns: mean", 1.07, mean(gains.values())),
        (f"{what}, by random with turns: best", 1.12, max(gains.values())),
        (f"{what}: share of the paired that do not", 0.9, above),
    ]
    return [row(what, target, round(got, 3), met=got >= target) for what, target, got in rows]


def main() -> None:
    """Match and print; 1 where a table cannot be used."""
    parser = options(__doc__, quick="one draw of the pairs seen")
    parser.add_argument("--tables", type=Path, required=True, help="folder of the published tables")
    run(parser, _result, _print)


def _result(args: argparse.Namespace) -> dict[str, Any]:
    draws = 1 if args.quick else 5
    tables_of = {gpu: read(args.tables / f"gavel_pytorch_pairs_{gpu}.csv") for gpu in GPUS}
    by_gpu = {gpu: figures(speeds, gpu, draws) for gpu, speeds in tables_of.items()}
    return {"bench": "coscheduling.published_pairs", "figures": by_gpu, "wanted": _wanted(by_gpu)}


def _print(result: Mapping[str, Any]) -> None:
    for gpu, rows in result["figures"].items():
        for name, one in rows.items():
            print(gpu, name, json.dumps(one))


if __name__ == "__main__":
    main()
