"""Replays of Philly's virtual clusters for queue: clusters, estimates, figures by policy."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from contrib.bench.common import metrics
from contrib.bench.duration import replay as duration_replay
from contrib.bench.duration.tables import PHILLY
from contrib.bench.queue.runtime_predictor import ReplayPredictor, TrainedPredictor, learn
from slurm_ext.core.errors import InputError
from slurm_ext.policy.queue.order import rules_of
from slurm_ext.simulate.queue.cluster import Cluster, fitted
from slurm_ext.simulate.queue.engine import replay
from slurm_ext.simulate.replay_result import ReplayResult
from slurm_ext.simulate.trace.columns import Column, Trace

LOADS = (0.75, 0.85, 0.95)
# What needs no estimates, or has all: the last two are what perfect ones would give.
KNOWN = "fifo,fifo+backfill,fewest,shortest,shortest+backfill,shortest+backfill+ageing"
PREDICTED = "qssf+backfill,qssf+backfill+ageing"
OURS = "qssf+backfill+ageing"
SHRUNK, PER_NODE = 0.25, 8
BETTER_R2 = (0.6, 0.7, 0.8, 0.9, 1.0)
Figures = dict[str, dict[str, float]]


def trained(train: Path, test: Path, *, quick: bool, earlier: bool = False) -> TrainedPredictor:
    """From what had ended before the later jobs; `earlier`: as duration_replay.trace."""
    past = duration_replay.trace(PHILLY, train, test, quick=quick, earlier=earlier)
    rounds = duration_replay.QUICK_ROUNDS if quick else duration_replay.ROUNDS
    return learn(PHILLY, past, rounds)


def trace_of(known: TrainedPredictor, source: str) -> Trace:
    """The later jobs; their estimates are those made before the replay."""
    names = [job.asked.names for job in known.jobs]
    vcs = tuple(sorted({name["vc"] for name in names}))
    count = len(known.jobs)
    submit_s = np.array([job.asked.submit_s for job in known.jobs])
    return Trace(
        source=source,
        job=tuple(job.job for job in known.jobs),
        submit_s=submit_s - submit_s[0],
        duration_s=np.maximum([job.duration_s for job in known.jobs], 1.0),
        gpus=np.array([int(name["num_gpus"]) for name in names]),
        cpus=np.zeros(count, dtype=np.int64),
        user=np.zeros(count, dtype=np.int64),
        vc=np.array([vcs.index(name["vc"]) for name in names]),
        account=np.zeros(count, dtype=np.int64),
        gpu_type=np.zeros(count, dtype=np.int64),
        qos=np.zeros(count, dtype=np.int64),
        limit_s=np.full(count, np.nan),
        estimate_s=known.before_s,
        vcs=vcs,
    )


def shrunk(path: Path) -> Cluster:
    """Every virtual cluster with a quarter of its nodes."""
    try:
        with path.open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row.get("nodes_8gpu")]
            nodes = {row["vc"]: max(1, round(float(row["nodes_8gpu"]) * SHRUNK)) for row in rows}
    except (OSError, KeyError, ValueError) as error:
        raise InputError(str(path), f"expected a CSV with vc and nodes_8gpu: {error}") from None
    return Cluster(nodes=sum(nodes.values()), gpus_per_node=PER_NODE, vcs=nodes)


def loaded(trace: Trace, load: float) -> Cluster:
    """Virtual clusters of the nodes that give each about this load."""
    there_s = float(trace.submit_s[-1]) * PER_NODE
    asked = np.bincount(trace.vc, trace.gpus * trace.duration_s, len(trace.vcs))
    counts = [max(1, round(float(work) / (load * there_s))) for work in asked]
    nodes = dict(zip(trace.vcs, counts, strict=True))
    return Cluster(nodes=sum(nodes.values()), gpus_per_node=PER_NODE, vcs=nodes)


def replayed(known: TrainedPredictor, trace: Trace, cluster: Cluster) -> dict[str, Any]:
    """Every policy on one cluster."""
    left = fitted(replace(trace, repairs={}), cluster, leave_out=True)
    asked = float(np.sum(left.gpus * left.duration_s))
    inside, r2 = _inside(known, left, cluster, PREDICTED)
    return {
        "jobs": len(left),
        "left_out": len(trace) - len(left),
        "gpus": cluster.gpus,
        "load": round(asked / (cluster.gpus * float(left.submit_s[-1])), 3),
        "policies": {**_static(left, cluster, KNOWN), **inside},
        "told_before": _static(left, cluster, PREDICTED),
        "r2_of_logs": {**r2, "told_before": _r2(left.estimate_s, left.duration_s)},
    }


def once(known: TrainedPredictor, trace: Trace, cluster: Cluster) -> dict[str, Any]:
    """Figures without corrections by siblings: predicted at submission, inside the replay."""
    left = fitted(replace(trace, repairs={}), cluster, leave_out=True)
    figures, r2 = _inside(known, left, cluster, "qssf+backfill", siblings=False)
    return {"policies": figures, "r2_of_logs": r2["at_submission"]}


def by_r2(trace: Trace, cluster: Cluster, backfilled_s: float) -> dict[str, Any]:
    """Mean completion of FIFO with backfill over ours, by R2 of logs of estimates made before."""
    left = fitted(replace(trace, repairs={}), cluster, leave_out=True)
    error = np.log(left.estimate_s) - np.log(left.duration_s)
    r2 = _r2(left.estimate_s, left.duration_s)
    gains: dict[str, Any] = {"r2_of_ours": r2}
    for better in BETTER_R2:
        if better > r2:
            estimate_s = left.duration_s * np.exp(error * np.sqrt((1 - better) / (1 - r2)))
            rows = _static(replace(left, estimate_s=estimate_s), cluster, PREDICTED)
            gains[str(better)] = {
                name: round(backfilled_s / row["jct_mean_s"], 3) for name, row in rows.items()
            }
    return gains


def _static(trace: Trace, cluster: Cluster, names: str) -> Figures:
    return {rule.name: _row(replay(trace, cluster, rule)) for rule in rules_of(names)}


def _inside(
    known: TrainedPredictor, trace: Trace, cluster: Cluster, names: str, *, siblings: bool = True
) -> tuple[Figures, dict[str, float]]:
    """Each in a replay of its own; R2 of the last one's."""
    figures, r2 = {}, {}
    for rule in rules_of(names):
        predictor = ReplayPredictor(known, trace.job, siblings=siblings)
        figures[rule.name] = _row(replay(trace, cluster, rule, predictor=predictor))
        r2 = {
            "at_submission": _r2(predictor.submission_s, trace.duration_s),
            "at_start": _r2(predictor.start_s, trace.duration_s),
        }
    return figures, r2


def _row(outcome: ReplayResult) -> dict[str, float]:
    figures = outcome.figures()
    kept = (name for name in figures if name.startswith(("jct_", "queue_")))
    return {name: round(figures[name], 1) for name in kept}


def _r2(predicted_s: Column, real_s: Column) -> float:
    return round(metrics.log_r2(predicted_s, real_s) or 0.0, 3)
