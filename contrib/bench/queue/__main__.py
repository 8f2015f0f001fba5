"""Gain of QSSF with real predictions on Philly's virtual clusters, shrunk to be loaded.

    python -m contrib.bench.queue --train DIR --test DIR [--vcs FILE] [--json] [--quick]

DIR holds philly_jobs.csv.gz (the folders of `duration`); one folder twice is development: its last
quarter is replayed. Only the test's jobs are replayed, from an empty cluster, each virtual cluster
by itself: shrunk to a quarter of its nodes (--vcs: columns vc and nodes_8gpu), and to a load of
0.75, 0.85 and 0.95 (requested GPU time over available GPU time, from the first to the last
submission; nodes are whole, so `load` is the load that resulted). Jobs that no longer fit are left
out of every policy, and so are those that ran when the trace was cut (`still_running`): only their
age is known.

Predictions are made inside the replay as the live queue makes them (runtime_predictor.py): at
submission, from the jobs that have ended in that replay, then corrected by jobs submitted
together. QSSF orders by their median. `told_before`: estimates as if each job ended its run time
after its submission, however long it waits; no queue knows that. `told_once`: without these
corrections. Backfill plans with true durations for every policy (the trace has no time limits),
which flatters all alike. Ageing and corrections were chosen on the development trace without its
last quarter (queue/ageing), which is replayed here. `by_r2`: the gains over FIFO with backfill,
without and with ageing, if the logs of the estimates made before were nearer to the truth, every
error smaller by one factor (1.0: no error).
"""

import os
from argparse import Namespace
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Any

from contrib.bench.common.program import Result, folders, options, row, run
from contrib.bench.queue.replays import (
    LOADS,
    OURS,
    by_r2,
    loaded,
    once,
    replayed,
    shrunk,
    trace_of,
    trained,
)
from contrib.bench.queue.runtime_predictor import TrainedPredictor
from slurm_ext.simulate.queue.cluster import Cluster
from slurm_ext.simulate.trace.columns import Trace

MOST_QUEUE_S = 14_798.0  # LightGBM's QSSF with backfill, without ageing, on the held-out weeks
LEAST_GAINS = {"fifo": 6.5, "fifo+backfill": 1.75}  # of completion time, at load 0.85


def result(args: Namespace) -> Result:
    """The benchmark's last line. Raises InputError if a table cannot be used."""
    began = monotonic()
    beside = args.train.parent / "scheduling" / "helios_artifact_philly_published.csv"
    clusters = {"quarter": shrunk(args.vcs or beside)}
    known = trained(args.train, args.test, quick=args.quick)
    trace = trace_of(known, str(args.test))
    clusters |= {f"load {load}": loaded(trace, load) for load in LOADS}
    figures = _at_once(known, trace, clusters)
    part, cluster = figures["load 0.85"], clusters["load 0.85"]
    part["told_once"] = once(known, trace, cluster)
    part["by_r2"] = by_r2(trace, cluster, part["policies"]["fifo+backfill"]["jct_mean_s"])
    wanted = list(_wanted(figures, held_out=args.train.resolve() != args.test.resolve()))
    figures |= {"still_running": known.still_running, "quick": args.quick}
    figures["seconds"] = round(monotonic() - began, 1)
    return {"bench": "queue", "figures": figures, "wanted": wanted}


def _at_once(known: TrainedPredictor, trace: Trace, clusters: dict[str, Cluster]) -> dict[str, Any]:
    """Each cluster's replays in a process of its own, as many at a time as there are cores."""
    with ProcessPoolExecutor(min(len(clusters), os.cpu_count() or 1)) as pool:
        begun = {
            name: pool.submit(replayed, known, trace, cluster) for name, cluster in clusters.items()
        }
        return {name: replay.result() for name, replay in begun.items()}


def _wanted(figures: dict[str, Any], *, held_out: bool) -> Iterator[Result]:
    """Rows; the published wait is of held-out weeks: no bar for a folder that is learnt from."""
    if held_out:
        got = figures["quarter"]["policies"][OURS]["queue_mean_s"]
        what = f"{OURS}: mean queue (s) on a quarter of the nodes, below"
        yield row(what, MOST_QUEUE_S, got, met=got < MOST_QUEUE_S)
    policies = figures["load 0.85"]["policies"]
    for other, least in LEAST_GAINS.items():
        gain = round(policies[other]["jct_mean_s"] / policies[OURS]["jct_mean_s"], 2)
        what = f"{OURS}: mean completion against {other} at load 0.85, at least"
        yield row(what, least, gain, met=gain >= least)
    for name, part in figures.items():
        tails = {policy: scores["queue_p999_s"] for policy, scores in part["policies"].items()}
        ratio = round(tails[OURS] / tails["fifo+backfill"], 3)
        what = f"{OURS}: 99.9th percentile of waiting over fifo+backfill's, {name}, at most"
        yield row(what, 1.0, ratio, met=ratio <= 1.0)


def main() -> None:
    """Replay and print; 1 where a table cannot be used."""
    parser = options(__doc__, quick="a small model, fewer jobs")
    folders(parser, train="folder to learn from", test="folder to replay")
    parser.add_argument("--vcs", type=Path, help="nodes of virtual clusters (CSV vc, nodes_8gpu)")
    run(parser, result, _print)


def _print(result: Result) -> None:
    """A table for people."""
    for name, part in result["figures"].items():
        if not isinstance(part, dict):
            continue
        print(f"{name}: {part['jobs']} jobs on {part['gpus']} GPUs, load {part['load']}")
        for kind in ("policies", "told_before"):
            for policy, figures in part[kind].items():
                cells = (figures[key] for key in ("jct_mean_s", "queue_mean_s", "queue_p999_s"))
                title = policy if kind == "policies" else f"{policy}, told before"
                print(f"  {title:<36}" + "".join(f"{cell:>12,.0f}" for cell in cells))


if __name__ == "__main__":
    main()
