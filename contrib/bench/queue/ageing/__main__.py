"""Gain and tail of ageing settings, on the part of Philly that `queue` does not score.

    python -m contrib.bench.queue.ageing --data DIR [--leads DAYS/LEAST/MOST,...]
        [--copies 2] [--json]

DIR holds philly_jobs.csv.gz beside ../scheduling (queue). The third quarter of the
jobs is foretold inside the replay (queue/runtime_predictor.py) by a model of the half before it, on
queue's four clusters, as thinned copies: each leaves out another tenth of the jobs, because in
one replay a few long jobs decide, and a figure jumps by a tenth for nothing. Result of each lead
(most days, and between which GPU-seconds it grows: policy/queue/order.py): the gain in mean
completion
over FIFO with backfill, the mean queue and the 99.9th percentile of waiting over its, as geometric
means, and in how many replays that tail is worse.

To be taken: the largest gain whose tail is at most 1. Of five or six replays before the last
quarter (cut at 24,000 and 36,000 jobs, unthinned; gain, tail, how many worse): no ageing 1.37,
0.96 (3), 10 days over 60 to 1e6 GPU-seconds 1.38, 0.94 (3), 7 days 1.33, 0.91 (2), 4 days over 300
to 1e5 1.35, 0.92 (2). A change of nothing but rounding moves one replay's gain by 6 %. The last
quarter has waits three times as long: there 4 days, scored before 10 were taken, are near to FIFO
(1.12 at load 0.85, no tail worse; 10 days: 1.24, one worse by 0.2 %). With at most 16 running
siblings asked, 10 days give 1.33, 0.99 over the six. Tried since, not built: a lead of three times
the age of the oldest waiting job, at least 5 days, anew each 6 hours: 1.35, 0.95 over the six.
"""

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from contrib.bench.common.program import Result, options, run
from contrib.bench.queue.online_replay import replay_online
from contrib.bench.queue.replays import LOADS, loaded, shrunk, trace_of, trained
from contrib.bench.queue.runtime_predictor import ReplayPredictor, TrainedPredictor
from slurm_ext.core.errors import InputError
from slurm_ext.policy.queue import order as queue_order
from slurm_ext.policy.queue.order import rule_of
from slurm_ext.simulate.queue.cluster import Cluster, fitted
from slurm_ext.simulate.queue.engine import replay
from slurm_ext.simulate.replay_result import ReplayResult
from slurm_ext.simulate.trace.columns import Trace

LEFT_OUT = 0.1
LEADS = "7/60/1e6,10/60/1e6,4/300/1e5"
KEYS = ("jct_mean_s", "queue_mean_s", "queue_p999_s")
Replay = tuple[Trace, Cluster, Any]
Lead = tuple[float, float, float]


def replays(trace: Trace, vcs: Path, copies: int) -> list[Replay]:
    """Thinned copies on every cluster, each with FIFO's figures (with backfill)."""
    told = []
    for seed in range(copies):
        kept = np.random.default_rng(seed).random(len(trace)) >= LEFT_OUT
        thin = trace.only(kept, "thinned")
        thin = replace(thin, submit_s=thin.submit_s - thin.submit_s[0], repairs={})
        for cluster in (shrunk(vcs), *(loaded(thin, load) for load in LOADS)):
            left = fitted(thin, cluster, leave_out=True)
            told.append((left, cluster, _figures(replay(left, cluster, rule_of("fifo+backfill")))))
    return told


def judged(known: TrainedPredictor, tried: list[Replay], rule: str) -> dict[str, Any]:
    """Geometric means over the replays."""
    ratios = np.array([_inside(known, *one, rule) for one in tried])
    jct, queued, tail = np.exp(np.log(ratios).mean(axis=0)).tolist()
    told = {"gain": 1 / jct, "queue": queued, "tail": tail}
    worse = int((ratios[:, 2] > 1).sum())
    return {**{key: round(one, 3) for key, one in told.items()}, "worse_tails": worse}


def result(args: Namespace) -> Result:
    """The benchmark's last line. Raises InputError if a table or a lead cannot be used."""
    leads = [_lead(text) for text in args.leads.split(",")]
    vcs = args.data.parent / "scheduling" / "helios_artifact_philly_published.csv"
    known = trained(args.data, args.data, quick=args.quick, earlier=True)
    tried = replays(trace_of(known, str(args.data)), vcs, args.copies)
    told: dict[str, Any] = {"replays": len(tried), "qssf": judged(known, tried, "qssf+backfill")}
    for days, *sizes in leads:
        queue_order.MOST_LEAD_S, queue_order.LEAD_SIZES = (
            days * 86400.0,
            (sizes[0], sizes[1]),
        )  # what is chosen
        name = f"{days:g} days, {sizes[0]:g} to {sizes[1]:g} GPU-seconds"
        told[name] = judged(known, tried, "qssf+backfill+ageing")
        Console(stderr=True).print(name, told[name])
    return {"bench": "queue.ageing", "figures": told, "wanted": []}


def _inside(known: TrainedPredictor, trace: Trace, cluster: Cluster, fifo: Any, rule: str) -> Any:
    return (
        _figures(replay_online(trace, cluster, rule_of(rule), ReplayPredictor(known, trace.job)))
        / fifo
    )


def _figures(outcome: ReplayResult) -> Any:
    """Those of KEYS."""
    figures = outcome.figures()
    return np.array([figures[key] for key in KEYS])


def _lead(text: str) -> Lead:
    try:
        days, least, most = (float(part) for part in text.split("/"))
    except ValueError:
        days, least, most = 0.0, 0.0, 0.0
    if not (days > 0 and 0 < least < most):
        raise InputError("--leads", f"{text!r}: expected DAYS/LEAST/MOST, such as 3/300/1e5")
    return days, least, most


def _print(told: Result) -> None:
    for name, row in told["figures"].items():
        print(name, row)


def main() -> None:
    """Replay and print; 1 where the folder cannot be used."""
    parser = options(__doc__, quick="a small model, fewer jobs")
    parser.add_argument("--data", type=Path, required=True, help="folder of development traces")
    parser.add_argument("--leads", default=LEADS, help="most leads to try: DAYS/LEAST/MOST,...")
    parser.add_argument("--copies", type=int, default=2, help="thinned copies of the trace")
    run(parser, result, _print)


if __name__ == "__main__":
    main()
