"""The same jobs on a real Slurm and in a replay: order of starts, and mean wait.

    python -m contrib.bench.simulate.real [--jobs N] [--seed S] [--keep FILE] [--json] [--quick]

Jobs sleep, on a private Slurm of 4 nodes with 4 CPUs, with sched/backfill and priority/multifactor
(age and size). Submitted and run times are those that Slurm noted, so that the replay is of what
happened; whole seconds, as Slurm has no finer ones. The baselines are replays in order of
submission, with and without backfill: what a user has who leaves priorities out.
"""

import argparse
import csv
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from contrib.bench.common.program import at_least, at_most, options, run
from slurm_ext.policy.queue.order import Rule, rule_of
from slurm_ext.sandbox import Sandbox, SandboxSpec
from slurm_ext.simulate.planning.scheduling_conf import read_scheduling
from slurm_ext.simulate.queue.cluster import Cluster
from slurm_ext.simulate.queue.engine import replay
from slurm_ext.simulate.queue.multifactor import Multifactor
from slurm_ext.simulate.queue.priority_conf import read_priorities
from slurm_ext.simulate.replay_result import ReplayResult
from slurm_ext.simulate.trace.columns import Trace
from slurm_ext.simulate.trace.read import read

JOBS, QUICK = 200, 30
NODES, CPUS = 4, 4
LOAD = 1.2  # CPU time asked over that there is, while jobs come
SIZES, SHARES = (1, 2, 4, 8), (0.4, 0.3, 0.2, 0.1)
CONF = """
SchedulerParameters=bf_interval=1,bf_resolution=1,bf_continue,sched_interval=1
PriorityType=priority/multifactor
PriorityWeightAge=100000
PriorityMaxAge=0-1
PriorityWeightJobSize=3000
PriorityFavorSmall=YES
PriorityCalcPeriod=1
MinJobAge=36000
"""
COLUMNS = (
    "job",
    "submit_s",
    "duration_s",
    "gpus",
    "user",
    "limit_s",
    "start_s",
    "priority",
    "nodes",
)
Times = dict[str, tuple[float, float, float]]


def run_for_real(slurm: Sandbox, jobs: int, seed: int) -> dict[str, dict[str, str]]:
    """Submit the jobs in time, wait for their end; what Slurm then says of each."""
    rng = np.random.default_rng(seed)
    cpus = rng.choice(SIZES, jobs, p=SHARES)
    seconds = np.clip(rng.lognormal(np.log(8), 0.8, jobs), 2, 50).round()
    gaps = rng.exponential(np.mean(cpus * seconds) / (NODES * CPUS * LOAD), jobs)
    limits = rng.integers(1, 4, jobs)
    began, asked = time.monotonic(), []
    for count, runs, limit, at in zip(cpus, seconds, limits, np.cumsum(gaps), strict=True):
        time.sleep(max(0.0, began + at - time.monotonic()))
        nodes, tasks = -(-count // CPUS), min(count, CPUS)
        shape = [f"-N{nodes}", f"--ntasks-per-node={tasks}", f"--time={limit}", "--mem=1"]
        asked.append(slurm.sbatch(*shape, script=f"#!/bin/sh\nsleep {runs:.0f}\n")[0])
    for job in asked:
        slurm.wait(job, 600)
    return {str(job): slurm.job(job) for job in asked}


def rows(told: dict[str, dict[str, str]]) -> Iterator[dict[str, Any]]:
    """The trace's lines, of what Slurm noted."""
    for job, fields in told.items():
        submit_s, start_s, end_s = times(fields)
        hours, minutes, seconds = map(int, fields["TimeLimit"].split(":"))
        limit_s = hours * 3600 + minutes * 60 + seconds
        values = job, submit_s, end_s - start_s, fields["NumCPUs"], "user", limit_s, start_s
        noted = fields["Priority"], fields["NodeList"]
        yield dict(zip(COLUMNS, (*values, *noted), strict=True))


def times(fields: dict[str, str]) -> tuple[float, float, float]:
    """Submission, start and end, in Unix seconds."""
    found = (datetime.fromisoformat(fields[f"{name}Time"]) for name in ("Submit", "Start", "End"))
    submit_s, start_s, end_s = (one.timestamp() for one in found)
    return submit_s, start_s, end_s


def compared(trace: Trace, start_s: Any, result: ReplayResult) -> dict[str, float]:
    """Mean wait, and the share of pairs of jobs that start in the same order."""
    earlier = np.sign(start_s[:, None] - start_s[None, :])
    ours = np.sign(result.start_s[:, None] - result.start_s[None, :])
    counts = (earlier != 0) & (ours != 0)
    wait_s = float(np.mean(result.start_s - trace.submit_s))
    real_s = float(np.mean(start_s - trace.submit_s))
    return {
        "mean_wait_s": round(wait_s, 2),
        "of_the_real_one": round(wait_s / real_s, 4),
        "same_order": round(float(np.mean((earlier == ours)[counts])), 4),
        "starts_off_s_median": round(float(np.median(np.abs(result.start_s - start_s))), 2),
    }


def result(args: argparse.Namespace) -> dict[str, Any]:
    """The benchmark's last line."""
    jobs = QUICK if args.quick else args.jobs
    with tempfile.TemporaryDirectory(prefix="dlq-") as folder:
        # Without slurmdbd Slurm ignores PriorityWeightAge.
        spec = SandboxSpec(nodes=NODES, cpus=CPUS, slurm_conf=CONF, accounting=True)
        Path(folder).chmod(0o755)  # munge demands it
        with Sandbox(Path(folder) / "s", spec) as slurm:
            told = run_for_real(slurm, jobs, args.seed)
        path = args.keep or Path(folder) / "trace.csv"
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows(told))
        conf = Path(folder) / "slurm.conf"
        conf.write_text(CONF)
        figures = replays(read(path), told, conf)
    ours = figures["multifactor+backfill"]
    return {
        "bench": "simulate.real",
        "figures": {"jobs": jobs, "seed": args.seed, **figures},
        "wanted": [
            at_most("mean wait over the real one, off by", 0.05, abs(ours["of_the_real_one"] - 1)),
            at_least("pairs that start in the same order", 0.95, ours["same_order"]),
        ],
    }


def replays(trace: Trace, told: dict[str, dict[str, str]], conf: Path) -> dict[str, Any]:
    """The real Slurm, Slurm's own order in a replay, and the baselines."""
    all_times = np.array([times(told[job]) for job in trace.job])
    start_s = all_times[:, 1] - all_times[:, 0].min()
    multifactor = Rule(
        name="multifactor+backfill",
        keys=lambda jobs: jobs.submit_s,
        backfill=True,
        stateful=lambda: Multifactor(read_priorities(conf)),
    )
    cluster = Cluster(nodes=NODES, gpus_per_node=CPUS)
    as_slurm = read_scheduling(conf)
    first = replace(multifactor, name="multifactor, one reservation")
    rules = {
        multifactor: as_slurm,
        first: None,
        rule_of("fifo+backfill"): None,
        rule_of("fifo"): None,
    }
    real = {"mean_wait_s": round(float(np.mean(start_s - trace.submit_s)), 2)}
    found = {
        one.name: compared(trace, start_s, replay(trace, cluster, one, scheduling=look))
        for one, look in rules.items()
    }
    return {"real Slurm": real, **found}


def show(measured: dict[str, Any]) -> None:
    """A line for each."""
    for name, figures in measured["figures"].items():
        print(f"{name:<22}{figures}")


def main() -> None:
    """Measure and print."""
    parser = options(__doc__, quick=f"{QUICK} jobs")
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the trace here")
    run(parser, result, show)


if __name__ == "__main__":
    main()
