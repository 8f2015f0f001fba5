"""Replays of elastic jobs: a Pollux workload, and the measured tables of its applications."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_ext.cli.simulate.command import GPUS_PER_NODE, check, check_cluster
from slurm_ext.cli.simulate.jobs_text import JobsReplayed
from slurm_ext.core.errors import InputError, UsageError
from slurm_ext.simulate.elastic.applications import Application, applications
from slurm_ext.simulate.elastic.policies import POLICIES, policies_of
from slurm_ext.simulate.elastic.replay import ElasticCluster, replay_elastic
from slurm_ext.simulate.elastic.workload import WorkloadJob, read_workload
from slurm_ext.simulate.replay_result import ReplayResult

if TYPE_CHECKING:
    from rich.progress import Progress

LARGER = "left out: larger than its cluster"
OTHER_NODES = "on nodes larger than those whose steps were measured: steps are the nearest measured"


def replayed(args: argparse.Namespace, progress: "Progress") -> JobsReplayed:
    """Replay the workload under every policy. Raises UsageError, InputError and MissingError."""
    names = policies_of(args.elastic)
    cluster = _cluster(args)
    workload, repairs = _fitting(args, read_workload(args.trace), cluster)
    tables = applications(_folder(args))
    _check_tables(args.trace, workload, tables)
    if cluster.per_node > max(tables[job.application].per_node for job in workload):
        repairs |= {OTHER_NODES: len(workload)}
    results = [_replay(args, name, workload, tables, cluster, progress) for name in names]
    return JobsReplayed(
        kind="elastic",
        title="Elastic policies",
        source=str(args.trace),
        nodes=cluster.nodes,
        gpus=cluster.gpus,
        repairs=repairs,
        results=results,
    )


def _cluster(args: argparse.Namespace) -> ElasticCluster:
    check_cluster(args)
    check("--interference", args.interference, 0.0, 0.99)
    if args.nodes is None:
        raise UsageError("say how large the cluster is: --nodes N")
    return ElasticCluster(
        nodes=args.nodes,
        per_node=args.gpus_per_node or GPUS_PER_NODE,
        interference=args.interference or 0.0,
    )


def _folder(args: argparse.Namespace) -> Path:
    if args.tables is not None:
        return Path(args.tables)
    return Path(args.trace).resolve().parent.parent / "traces"


def _fitting(
    args: argparse.Namespace, workload: Sequence[WorkloadJob], cluster: ElasticCluster
) -> tuple[list[WorkloadJob], dict[str, int]]:
    """Jobs that the cluster can run as submitted, and how many are left out."""
    fitting = [job for job in workload if job.gpus <= cluster.gpus]
    larger = [job for job in workload if job.gpus > cluster.gpus]
    if larger and not args.leave_out_larger:
        raise InputError(
            str(args.trace),
            f"job {larger[0].name} asks for {larger[0].gpus} GPUs, more than there are"
            f" ({len(larger)} such jobs): give more --nodes, or leave them out with"
            " --leave-out-larger",
        )
    if not fitting:
        raise InputError(str(args.trace), "no job to replay: all are larger than the cluster")
    return fitting, {LARGER: len(larger)} if larger else {}


def _check_tables(
    path: Path, workload: Sequence[WorkloadJob], tables: Mapping[str, Application]
) -> None:
    missing = sorted({job.application for job in workload} - set(tables))
    if missing:
        raise InputError(str(path), f"no tables of {', '.join(missing)}: see --tables DIR")


def _replay(
    args: argparse.Namespace,
    name: str,
    workload: Sequence[WorkloadJob],
    tables: Mapping[str, Application],
    cluster: ElasticCluster,
    progress: "Progress",
) -> ReplayResult:
    task = progress.add_task(name, total=len(workload))
    return replay_elastic(
        workload,
        tables,
        POLICIES[name](cluster, args.seed or 0),
        cluster,
        name=name,
        progress=lambda jobs: progress.update(task, completed=jobs),
    )
