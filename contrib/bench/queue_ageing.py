"""Which ageing to take: replays of the part of Philly that queue.py does not score.

    queue_ageing.py --data DIR [--days 3,7,14,21] [--copies 4] [--json]

DIR holds philly_jobs.csv.gz beside ../scheduling (queue_policies.py). The third quarter of the
jobs is foretold by models of the half before it and replayed on queue.py's four clusters, as
thinned copies: each leaves out another tenth of the jobs, because in one replay a few long jobs
decide, and a figure jumps by a tenth for nothing. Told of each handicap (days, see
policy/queue.py): the gain in mean completion over FIFO with backfill, the mean queue and the 99.9th
percentile of waiting over its, as geometric means, and in how many replays that tail is worse.

To be taken: the largest gain whose tail is at most 1.
"""

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from queue_policies import (  # type: ignore[import-not-found]  # beside this file
    LOADS,
    loaded,
    shrunk,
    trace_of,
)
from rich.console import Console

from slurm_ext.facts.errors import DlqueueError
from slurm_ext.policy import queue
from slurm_ext.policy.queue import rule_of
from slurm_ext.simulate.cluster import Cluster, fitted
from slurm_ext.simulate.engine import replay
from slurm_ext.simulate.trace import Trace

LEFT_OUT = 0.1
KEYS = ("jct_mean_s", "queue_mean_s", "queue_p999_s")
Replay = tuple[Trace, Cluster, Any]


def figures_of(trace: Trace, cluster: Cluster, rule: str) -> Any:
    """Those of KEYS."""
    figures = replay(trace, cluster, rule_of(rule)).figures()
    return np.array([figures[key] for key in KEYS])


def replays(trace: Trace, vcs: Path, copies: int) -> list[Replay]:
    """Thinned copies on every cluster, each with FIFO's figures (with backfill)."""
    told = []
    for seed in range(copies):
        kept = np.random.default_rng(seed).random(len(trace)) >= LEFT_OUT
        thin = trace.only(kept, "thinned")
        thin = replace(thin, submit_s=thin.submit_s - thin.submit_s[0], repairs={})
        for cluster in (shrunk(vcs), *(loaded(thin, load) for load in LOADS)):
            left = fitted(thin, cluster, leave_out=True)
            told.append((left, cluster, figures_of(left, cluster, "fifo+backfill")))
    return told


def judged(tried: list[Replay], rule: str) -> dict[str, Any]:
    """Geometric means over the replays."""
    ratios = np.array([figures_of(trace, cluster, rule) / fifo for trace, cluster, fifo in tried])
    jct, queued, tail = np.exp(np.log(ratios).mean(axis=0)).tolist()
    worse = int((ratios[:, 2] > 1).sum())
    told = {"gain": 1 / jct, "queue": queued, "tail": tail}
    return {**{key: round(one, 3) for key, one in told.items()}, "worse_tails": worse}


def result(data: Path, days: list[float], copies: int) -> dict[str, Any]:
    """What is printed. Raises InputError where a table cannot be used."""
    vcs = data.parent / "scheduling" / "helios_artifact_philly_published.csv"
    tried = replays(trace_of(data, data, quick=False, earlier=True), vcs, copies)
    told: dict[str, Any] = {"replays": len(tried), "qssf": judged(tried, "qssf+backfill")}
    for most in days:
        queue.MOST_LEAD_S = most * 86400.0  # what is chosen here
        told[f"{most:g} days"] = judged(tried, "qssf+backfill+ageing")
        Console(stderr=True).print(most, told[f"{most:g} days"])
    return {"bench": "queue_ageing", "figures": told, "wanted": []}


def main() -> int:
    """Replay and print; 1 where the folder cannot be used."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of development traces")
    parser.add_argument("--days", default="3,7,14,21", help="most leads to try")
    parser.add_argument("--copies", type=int, default=4, help="thinned copies of the trace")
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    args = parser.parse_args()
    try:
        told = result(args.data, [float(day) for day in args.days.split(",")], args.copies)
    except (DlqueueError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    if not args.json:
        for name, row in told["figures"].items():
            print(name, row)
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
