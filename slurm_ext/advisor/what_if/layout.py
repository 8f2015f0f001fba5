"""A job's layout over tasks, nodes and GPUs, as written and over other ones. Pure.

A job that has a task for each GPU (or for each node) keeps that when its GPUs change; one task that
starts its ranks itself (torchrun) stays one, with as many cores a GPU as before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from slurm_ext.advisor.evidence.job_ranks import ranks_of
from slurm_ext.advisor.limits.bounds import PartitionRules, cpus_of, per_cpu_mib, task_mem_mib
from slurm_ext.core.errors import UsageError
from slurm_ext.core.gpu_request import (
    OPTIONS,
    gpus_in,
    gpus_named,
    gres_of_option,
    nodes_of,
    parse_gres,
    tasks_of,
)
from slurm_ext.core.records import LoaderRun, Submission


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLayout:
    """The whole job; workers are those of each training process (rank)."""

    cpus_per_task: int
    num_workers: int
    tasks: int = 1
    nodes: int = 1
    gpus: int = 0
    gpu_type: str | None = None  # None: whichever Slurm gives
    ranks: int = 1

    @property
    def cpus(self) -> int:
        """CPUs of the whole job."""
        return self.cpus_per_task * self.tasks

    @property
    def tasks_per_node(self) -> int:
        """Tasks on the fullest node."""
        return -(-self.tasks // self.nodes)

    @property
    def ranks_per_task(self) -> int:
        """Training processes that share one task's cores and memory."""
        return max(1, -(-self.ranks // self.tasks))


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuOption:
    """The script's GPU option: `--gres=gpu:a100:2,tmp:1` is gres, a100, 2 and (tmp:1,)."""

    option: str = "gpus"
    kind: str | None = None
    count: int = 0  # of each node or task, or of the job
    others: tuple[str, ...] = ()

    def words(self, layout: JobLayout) -> str:
        """The option for another layout, spelled as the script spells it."""
        units = {"job": 1, "node": layout.nodes, "task": layout.tasks}[OPTIONS[self.option]]
        count = str(layout.gpus // units)
        name = ("gpu",) if self.option == "gres" else ()
        kind = (layout.gpu_type,) if layout.gpu_type else ()
        return f"--{self.option}={','.join((*self.others, ':'.join((*name, *kind, count))))}"


def request_of(options: Mapping[str, str | None]) -> GpuOption | None:
    """The script's GPUs; None where it asks for none, or in a way that cannot be varied."""
    items = [(name, _gpu_items(name, options.get(name))) for name in OPTIONS]
    items = [(name, gpus) for name, gpus in items if gpus]
    if "gpus-per-socket" in options or len(items) > 1:
        return None
    if not items:
        return GpuOption()
    ((name, gpus),) = items
    if len(gpus) > 1:
        return None
    (gpu,) = parse_gres(gres_of_option(name, gpus[0]))
    others = tuple(item for item in (options[name] or "").split(",") if item not in gpus)
    return GpuOption(option=name, kind=gpu.type or None, count=gpu.count, others=others)


def written_layout(
    job: Submission, request: GpuOption | None, workers: int, runs: Sequence[LoaderRun]
) -> JobLayout:
    """The job as it is written; how many ranks it has, its runs say."""
    nodes, tasks = nodes_of(job), tasks_of(job)
    units = {"job": 1, "node": nodes, "task": tasks}
    gpus = 0 if request is None else request.count * units[OPTIONS[request.option]]
    layout = JobLayout(
        cpus_per_task=_cpus_of(job, gpus, tasks),
        num_workers=workers,
        tasks=tasks,
        nodes=nodes,
        gpus=gpus,
        gpu_type=None if request is None else request.kind,
    )
    return replace(layout, ranks=ranks_of(layout.gpus, layout.tasks, runs))


def with_gpus(written: JobLayout, gpus: int, most_per_node: int | None) -> JobLayout:
    """The job over another number of GPUs, with as many cores and ranks for each.

    `most_per_node` None: unknown, and the nodes stay. Raises UsageError where it does not divide.
    """
    nodes = written.nodes
    if most_per_node and gpus > nodes * most_per_node:
        nodes = -(-gpus // most_per_node)
    elif gpus < nodes:
        nodes = 1
    if gpus % nodes:
        raise UsageError(f"{gpus} GPUs cannot be spread evenly over {nodes} nodes")
    tasks = _tasks(written, gpus, nodes)
    before = max(1, written.gpus)
    return replace(
        written,
        gpus=gpus,
        nodes=nodes,
        tasks=tasks,
        cpus_per_task=-(-written.cpus * gpus // (before * tasks)),
        ranks=max(1, round(written.ranks * gpus / before)),
    )


def task_mem_of(
    job: Submission, rules: PartitionRules | None, written: JobLayout, layout: JobLayout
) -> int | None:
    """MiB of one task; None: not limited by the job.

    As dlqueue's edits have it, memory by the CPU stays as a total, unless the GPUs change.
    """
    if job.mem_per_node_mib:
        return job.mem_per_node_mib // layout.tasks_per_node
    per_cpu = per_cpu_mib(job, rules)
    if per_cpu is None or layout.gpus == written.gpus:
        return task_mem_mib(job, rules)
    return per_cpu * layout.cpus_per_task


def _cpus_of(job: Submission, gpus: int, tasks: int) -> int:
    """CPUs of one task, those that come with its GPUs (`gpu:4`) included."""
    by_gpu = gpus_in(job.cpus_per_tres)  # the list counts CPUs: gres:gpu:4
    return max(1, by_gpu * gpus // tasks) if by_gpu and gpus else cpus_of(job)


def _tasks(written: JobLayout, gpus: int, nodes: int) -> int:
    """A task a node stays that; tasks that have GPUs each keep as many each."""
    if written.tasks == written.nodes:
        return nodes
    by_task, over = divmod(written.gpus, written.tasks)
    if over or not by_task:
        return written.tasks
    if gpus % by_task:
        raise UsageError(f"{gpus} GPUs cannot be shared by tasks of {by_task} GPUs each")
    return gpus // by_task


def _gpu_items(option: str, value: str | None) -> list[str]:
    """Those words of an option's value that are GPUs."""
    return [word for word in (value or "").split(",") if gpus_named(option, word)]
