"""Elastic scaling on the Pollux tables, with models that learn from the running job alone.

    python -m contrib.bench.elastic --workloads DIR --traces DIR
        [--published FILE] [--workers N] [--json] [--quick]

--workloads holds workload-N.csv, and beside it DIR-0.5, DIR-1.5, DIR-2.0 for other loads; or it is
the folder of all of these. --traces holds the applications' tables. --published: mean completion
by policy, load and workload (found beside the workloads' folder).

slurm_ext/simulate/elastic is the published simulator's clock and re-runs Tiresias on it (its
figures against the published ones say how true the replay is), policies.py is ours and what it
is compared with, optimisers.py the optimisers' time and the evolution. 16 nodes of 4 GPUs.

What a learned rule is told: limits of the batch, and a job's epochs as its script declares them
(`length unknown` is told none). Everything else it measures in the run. Favouring short jobs and
the growth of a size were chosen on workloads 1, 3 and 6.

The seed's setting (Saxena et al., MASCOTS '20): load 2.0, an untuned fixed initial batch as the
baseline, jobs that end within 8 hours and mean completion time of all jobs, as they come out.
"""

import argparse
import csv
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from os import cpu_count
from pathlib import Path
from time import monotonic
from typing import Any

from rich.console import Console
from rich.progress import track

from contrib.bench.common.program import options, run
from contrib.bench.elastic import figures as elastic_figures
from contrib.bench.elastic import optimisers
from contrib.bench.elastic.figures import CHECKED, OURS, RULES, SEED, WINDOW_S, ReplaySummary, Task
from contrib.bench.elastic.policies import KINDS, policy_of
from slurm_ext.core.errors import InputError
from slurm_ext.simulate.elastic.applications import applications
from slurm_ext.simulate.elastic.fixed_sizes import Tiresias
from slurm_ext.simulate.elastic.replay import ElasticCluster, ElasticPolicy, replay_elastic
from slurm_ext.simulate.elastic.workload import read_workload

CLUSTER = ElasticCluster(nodes=16, per_node=4)


def folders(given: Path) -> dict[str, Path]:
    """The folder of each load. Raises InputError where there is no workload."""
    base = given if list(given.glob("workload-*.csv")) else given / "workloads"
    found = {"1.0": base}
    found |= {load: base.with_name(f"{base.name}-{load}") for load in ("0.5", "1.5", "2.0")}
    found = {load: path for load, path in found.items() if list(path.glob("workload-*.csv"))}
    if not found:
        raise InputError(str(given), "expected workload-N.csv here, or in workloads/ below")
    return found


def tasks_of(loads: Mapping[str, Path], traces: Path, *, quick: bool) -> list[Task]:
    """Every replay; quick: one workload, ours and the check."""
    out = []
    for load, folder in loads.items():
        paths = sorted(folder.glob("workload-*.csv"))
        rules = [*RULES[load], *(SEED if load == "2.0" else ())]
        if quick:
            paths, rules = paths[-1:], [OURS, CHECKED] if load == "1.0" else []
        out += [Task(rule, load, path, traces) for path in paths for rule in dict.fromkeys(rules)]
    return out


def done(task: Task) -> ReplaySummary:
    """One replay, in a process of its own."""
    apps = applications(task.traces)
    jobs = read_workload(task.path)
    unknown = {job.application for job in jobs} - set(apps)
    if unknown:
        raise InputError(str(task.path), f"no tables of {', '.join(sorted(unknown))}")
    outcome = replay_elastic(jobs, apps, _policy(task.rule), CLUSTER)
    return ReplaySummary(
        mean_s=float(outcome.jct_s.mean()),
        restarts=sum(outcome.restarts.values()) / len(jobs),
        in_window=int((outcome.end_s + jobs[0].arrival_s <= WINDOW_S).sum()),
        jobs=len(jobs),
    )


def _policy(name: str) -> ElasticPolicy:
    if name.startswith("Tiresias"):
        return Tiresias(CLUSTER, tuned=name == CHECKED)
    return policy_of(KINDS[name], CLUSTER)


def published(path: Path) -> dict[tuple[str, str, str], float]:
    """Mean completion by policy, load and workload; empty where the file is not there."""
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {
            (row["policy"], row["load"], row["workload"]): float(row["avg_jct_s"])
            for row in csv.DictReader(file)
        }


def result(args: argparse.Namespace) -> dict[str, Any]:
    """The benchmark's last line. Raises InputError if tables cannot be used."""
    began = monotonic()
    loads = folders(args.workloads)
    applications(args.traces)
    tasks = tasks_of(loads, args.traces, quick=args.quick)
    with ProcessPoolExecutor(args.workers) as pool:
        told = dict(zip(tasks, _shown(pool.map(done, tasks), len(tasks), args.json), strict=True))
    beside = loads.get("1.0", args.workloads)
    known = published(args.published or beside.parents[1] / "pollux_published_by_workload.csv")
    figures: dict[str, Any] = {
        load: elastic_figures.load_figures(load, told, known) for load in loads
    }
    figures = {load: figure for load, figure in figures.items() if figure["mean_s"]}
    figures["seed"] = elastic_figures.seed_figures(told)
    apps = applications(args.traces)
    figures["optimisers"] = optimisers.run(apps, quick=args.quick)
    rows = [*elastic_figures.wanted(figures), *optimisers.wanted(figures["optimisers"])]
    figures |= {"quick": args.quick, "seconds": round(monotonic() - began, 1)}
    return {"bench": "elastic", "figures": figures, "wanted": rows}


def _shown(found: Any, count: int, quiet: bool) -> Any:
    return track(found, "replays", total=count, console=Console(stderr=True), disable=quiet)


def _table(told: Mapping[str, Any]) -> Sequence[str]:
    lines = []
    for load in ("0.5", "1.0", "1.5", "2.0"):
        for rule, mean in told["figures"].get(load, {}).get("mean_s", {}).items():
            lines.append(f"{load}x  {rule:28} {mean:9.1f} s")
    return lines


def main() -> None:
    """Replay and print; 1 where a table cannot be used."""
    parser = options(__doc__, quick="one workload, two rules")
    parser.add_argument("--workloads", type=Path, required=True, help="folder of workload-N.csv")
    parser.add_argument("--traces", type=Path, required=True, help="folder of tables")
    parser.add_argument("--published", type=Path, help="CSV policy, load, workload, avg_jct_s")
    parser.add_argument("--workers", type=int, default=cpu_count(), help="processes")
    run(parser, result, _print)


def _print(told: Mapping[str, Any]) -> None:
    print("\n".join(_table(told)))
    for row in told["wanted"]:
        said = "met" if row["met"] else "MISSED"
        print(f"{said:7} {row['what']}: {row['got']} ({row['target']})")


if __name__ == "__main__":
    main()
