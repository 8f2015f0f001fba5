"""Time and memory of a replay of a million jobs: the whole command, from file to JSON.

    python -m contrib.bench.simulate [--jobs N] [--load L] [--json] [--quick]

The trace is synthetic: Poisson submissions by hour of day, log-normal durations (median 20
minutes, some for weeks), mostly one GPU and up to 64, one user with half of the jobs, 256 nodes of
8 GPUs. At load 1.1 the queue grows to tens of thousands of jobs, the hard case. Seconds are of the
whole command: reading the file, replaying, printing; each policy is a process of its own. Policies
that preempt (srtf, tiresias) are left out: they look at every waiting job at every event, and take
about ten times as long.
"""

import argparse
import gzip
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from contrib.bench.common.measure import timed
from contrib.bench.common.program import options, row, run

MILLION, QUICK = 1_000_000, 20_000
MOST_S, MOST_GIB = 300.0, 2.0
NODES, PER_NODE = 256, 8
POLICIES = ("fifo", "fifo+backfill", "fewest", "shortest+backfill", "qssf+backfill+ageing")
SIZES, SHARES = (1, 2, 4, 8, 16, 32, 64), (0.72, 0.08, 0.08, 0.08, 0.02, 0.015, 0.005)


def made(path: Path, jobs: int, load: float) -> None:
    """Write a trace of that many jobs, the same every time."""
    rng = np.random.default_rng(5)
    gpus = rng.choice(SIZES, jobs, p=SHARES)
    duration_s = np.clip(rng.lognormal(np.log(1200), 2.0, jobs), 1, 30 * 86400).round()
    mean_gap_s = float(np.mean(gpus * duration_s)) / (NODES * PER_NODE * load)
    submit_s = np.cumsum(rng.exponential(mean_gap_s, jobs))
    submit_s += 3 * 3600 * np.sin(submit_s * 2 * np.pi / 86400) / (2 * np.pi)  # days and nights
    submit_s = np.sort(submit_s).round()
    estimate_s = np.maximum(1.0, duration_s * rng.lognormal(0, 1.0, jobs))
    users = np.where(rng.random(jobs) < 0.5, 0, rng.integers(1, 500, jobs))
    rows = zip(submit_s, duration_s, gpus, users, estimate_s, strict=True)
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write("job,submit_s,duration_s,gpus,user,estimate_s\n")
        file.writelines(
            f"{job},{at:.0f},{runs:.0f},{held},u{user},{guess:.1f}\n"
            for job, (at, runs, held, user, guess) in enumerate(rows)
        )


def replayed(path: Path, policy: str) -> dict[str, Any]:
    """One policy: seconds of the command, and its own figures."""
    output = path.with_name("figures.json")
    command = [sys.executable, "-m", "slurm_ext.cli", "simulate", str(path), "--json"]
    command += ["--nodes", str(NODES), "--gpus-per-node", str(PER_NODE), "--policy", policy]
    spent = timed(command, output=str(output))
    figures = json.loads(output.read_text())["policies"][0]
    kept = ("jct_mean_s", "queue_mean_s", "queue_p999_s", "utilisation")
    return {
        "seconds": round(spent.seconds, 1),
        "gib": round(spent.peak_kib / 2**20, 3),
        **{name: round(figures[name], 3) for name in kept},
    }


def result(jobs: int, load: float, policies: tuple[str, ...]) -> dict[str, Any]:
    """The benchmark's last line."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.csv.gz"
        made(path, jobs, load)
        rows = {policy: replayed(path, policy) for policy in policies}
    gib = max(row["gib"] for row in rows.values())
    slowest = max(row["seconds"] for row in rows.values())
    figures = {
        "jobs": jobs,
        "gpus": NODES * PER_NODE,
        "load": load,
        "repeats": 1,
        "policies": rows,
        "most_gib": gib,
    }
    return {"bench": "simulate", "figures": figures, "wanted": _wanted(jobs, slowest, gib)}


def _wanted(jobs: int, slowest: float, gib: float) -> list[dict[str, Any]]:
    enough = jobs >= MILLION
    rows = [
        ("seconds of the slowest policy on a million jobs, at most", MOST_S, slowest),
        ("GiB of memory on a million jobs, at most", MOST_GIB, round(gib, 3)),
    ]
    return [
        row(what, most, got if enough else None, met=enough and got <= most)
        for what, most, got in rows
    ]


def main() -> None:
    """Measure and print."""
    parser = options(__doc__, quick=f"{QUICK} jobs")
    parser.add_argument("--jobs", type=int, default=MILLION)
    parser.add_argument("--load", type=float, default=1.1, help="GPU time asked over that there is")
    parser.add_argument("--policy", default=",".join(POLICIES), help="comma-separated")
    run(parser, _result, _print)


def _result(args: argparse.Namespace) -> dict[str, Any]:
    return result(QUICK if args.quick else args.jobs, args.load, tuple(args.policy.split(",")))


def _print(result: dict[str, Any]) -> None:
    for policy, figures in result["figures"]["policies"].items():
        print(f"{policy:<24}" + "  ".join(f"{name} {value:g}" for name, value in figures.items()))
    print(f"at most {result['figures']['most_gib']} GiB")


if __name__ == "__main__":
    main()
