"""The same jobs on a real Slurm and in a replay: order of starts, and mean wait.

    python -m contrib.bench.simulate.real [--jobs N] [--seed S] [--keep FILE] [--replay FILE ...]

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
from slurm_ext.simulate.planning.scheduling import Scheduling
from slurm_ext.simulate.planning.scheduling_conf import read_scheduling
from slurm_ext.simulate.queue.cluster import Cluster
from slurm_ext.simulate.queue.engine import replay
from slurm_ext.simulate.queue.multifactor import Multifactor
from slurm_ext.simulate.queue.priority_conf import read_priorities
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
BLURS = 16
SETTLED_S = 3.0  # a job that waited no longer did not wait for an end


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


def lag_s(trace: Trace, start_s: Any) -> float:
    """Mean time from the last end before a start to that start, of jobs that had to wait."""
    end_s = np.sort(start_s + trace.duration_s)
    waited = start_s[start_s - trace.submit_s > SETTLED_S]
    before = np.searchsorted(end_s, waited, side="right") - 1
    return float(np.mean(waited - end_s[before]))


def blurred(trace: Trace, start_s: Any, seed: int) -> Trace:
    """The trace, as it may have been below Slurm's whole seconds; ends are seen a lag later."""
    rng, jobs = np.random.default_rng(seed), len(trace)
    run_s = trace.duration_s + lag_s(trace, start_s) + rng.uniform(-0.5, 0.5, jobs)
    submit_s = np.sort(trace.submit_s + rng.uniform(0, 1, jobs))
    return replace(trace, submit_s=submit_s, duration_s=run_s)


def compared(trace: Trace, start_s: Any, rule: Rule, look: Scheduling | None) -> dict[str, float]:
    """Mean wait, and share of pairs of jobs that start in the same order; over BLURS replays."""
    cluster = Cluster(nodes=NODES, gpus_per_node=CPUS)
    blurs = [blurred(trace, start_s, seed) for seed in range(BLURS)]
    starts = [replay(one, cluster, rule, scheduling=look).start_s for one in blurs]
    waits = [float(np.mean(start - one.submit_s)) for start, one in zip(starts, blurs, strict=True)]
    real_s = float(np.mean(start_s - trace.submit_s))
    return {
        "mean_wait_s": round(float(np.mean(waits)), 2),
        "of_the_real_one": round(float(np.mean(waits)) / real_s, 4),
        "sd_of_one_replay": round(float(np.std(waits)) / real_s, 4),
        "same_order": round(float(np.mean([same_order(start_s, one) for one in starts])), 4),
    }


def same_order(start_s: Any, other_s: Any) -> float:
    """Share of the pairs of jobs that start one after the other in both."""
    first, second = (np.sign(one[:, None] - one[None, :]) for one in (start_s, other_s))
    counts = (first != 0) & (second != 0)
    return float(np.mean((first == second)[counts]))


def result(args: argparse.Namespace) -> dict[str, Any]:
    """The benchmark's last line."""
    jobs = QUICK if args.quick else args.jobs
    with tempfile.TemporaryDirectory(prefix="dlq-") as folder:
        conf = Path(folder) / "slurm.conf"
        conf.write_text(CONF)
        kept = args.replay or [record(Path(folder), jobs, args.seed, args.keep)]
        runs = {path.name: replays(path, conf) for path in kept}
    ours = [figures["multifactor+backfill"] for figures in runs.values()]
    off = np.array([one["of_the_real_one"] for one in ours]) - 1
    worst, mean = (round(float(one), 4) for one in (np.abs(off).max(), abs(off.mean())))
    order = min(one["same_order"] for one in ours)
    return {
        "bench": "simulate.real",
        "figures": {"runs": runs, "repeats": BLURS},
        "wanted": [
            at_most("mean wait over the real one, the worst run, off by", 0.05, worst),
            at_most("mean wait over the real one, mean of the runs, off by", 0.05, mean),
            at_least("pairs that start in the same order, the worst run", 0.95, order),
        ],
    }


def record(folder: Path, jobs: int, seed: int, keep: Path | None) -> Path:
    """Run the jobs for real; the file that tells of it."""
    spec = SandboxSpec(nodes=NODES, cpus=CPUS, slurm_conf=CONF, accounting=True)
    folder.chmod(0o755)  # munge demands it; without slurmdbd Slurm ignores PriorityWeightAge
    with Sandbox(folder / "s", spec) as slurm:
        told = run_for_real(slurm, jobs, seed)
    path = keep or folder / f"seed-{seed}.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows(told))
    return path


def replays(path: Path, conf: Path) -> dict[str, Any]:
    """The real Slurm, Slurm's own order in a replay, and the baselines."""
    trace = read(path)
    with path.open(newline="") as file:
        noted = {row["job"]: row for row in csv.DictReader(file)}
    first_s = min(float(row["submit_s"]) for row in noted.values())
    start_s = np.array([float(noted[job]["start_s"]) for job in trace.job]) - first_s
    multifactor = Rule(
        name="multifactor+backfill",
        keys=lambda jobs: jobs.submit_s,
        backfill=True,
        stateful=lambda: Multifactor(read_priorities(conf)),
    )
    first = replace(multifactor, name="multifactor, one reservation")
    baselines = dict.fromkeys((first, rule_of("fifo+backfill"), rule_of("fifo")))
    rules = {multifactor: read_scheduling(conf), **baselines}
    real_s = round(float(np.mean(start_s - trace.submit_s)), 2)
    real = {"jobs": len(trace), "mean_wait_s": real_s, "lag_s": round(lag_s(trace, start_s), 2)}
    found = {one.name: compared(trace, start_s, one, look) for one, look in rules.items()}
    return {"real Slurm": real, **found}


def show(measured: dict[str, Any]) -> None:
    """A line for each."""
    for run_name, found in measured["figures"]["runs"].items():
        for name, figures in found.items():
            print(f"{run_name:<12}{name:<30}{figures}")


def main() -> None:
    """Measure and print."""
    parser = options(__doc__, quick=f"{QUICK} jobs")
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the trace here")
    parser.add_argument(
        "--replay", type=Path, nargs="+", metavar="FILE", help="runs that were kept"
    )
    run(parser, result, show)


if __name__ == "__main__":
    main()
