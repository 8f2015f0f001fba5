"""The rule of before, as the baseline: one point on the curve, one word, one clause.

It knew data, storage, accelerator, network, memory, idle, step and cores; the first of these that
its thresholds found was said, without seconds and without a floor of its own.
"""

from collections.abc import Mapping
from typing import Any

from slurm_ext.core.loader_run import loader_run
from slurm_ext.core.records import Level, LoaderRun
from slurm_ext.model.throughput.curve.point import Point
from slurm_ext.model.throughput.estimate import Estimate, estimate
from slurm_ext.model.throughput.shape_predictor import point_at

EXPOSED, BUSY = 0.15, 0.60


def said(record: Mapping[str, Any]) -> tuple[str, str] | None:
    """Word and action; None where it says that nothing is to be done, or has no estimate."""
    run = loader_run(record)
    known = estimate({Level.SCRIPT_ARGS: [run]}) if run else None
    if run is None or known is None:
        return None
    cores = min(run.cores, run.node_cores or run.cores)
    point = point_at(known, run.workers, cores)
    network = _network_share([*record["probe"]["summaries"], *record.get("beside", ())])
    if network > EXPOSED and network * (1 - point.stalled) > point.stalled:
        one = _fits(record)
        return "network", "one_node" if one else "buckets"
    if point.limit == "storage":
        return "storage", "local_copy"
    if point.limit == "data":
        return _data(point, run, known, record)
    if known.others > 0:
        return "cores", "cores_of_its_own"
    busy = 1 - (run.main_cpu_s or 0.0) * run.accel_samples_per_s if run.emulated else None
    return ("idle", "larger_batch") if busy is not None and busy < BUSY else None


def _data(
    point: Point, run: LoaderRun, known: Estimate, record: Mapping[str, Any]
) -> tuple[str, str]:
    mem_bytes, rss = record["allocation"].get("mem_bytes"), known.worker_rss_bytes
    full = bool(mem_bytes and rss and (run.workers + 1) * rss > mem_bytes)
    if point.wall >= point.cpu and full:
        return "memory", "more_memory"
    if run.workers == 0:
        return "data", "load_in_workers"
    if point.wall >= point.cpu:
        return "data", "more_workers"
    every = run.node_cores is not None and run.cores >= run.node_cores
    return "data", "cheaper_samples" if every else "more_cpus"


def _network_share(summaries: list[Mapping[str, Any]]) -> float:
    """Exposed communication of a step, by the rank that waits least."""
    shares = []
    for one in summaries:
        told = one.get("communication")
        if told:
            exposed_s = told["comm_s"] - told["overlap_s"]
            shares.append(exposed_s / (told["forward_s"] + told["backward_s"] + exposed_s))
    return min(shares, default=0.0)


def _fits(record: Mapping[str, Any]) -> bool:
    here = record["allocation"]
    return bool(
        here["num_nodes"] > 1 and record["host"]["cores"] >= here["cpus"] * here["num_nodes"]
    )
