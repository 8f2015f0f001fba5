"""Slurm's start time of each row of a what-if table, by `sbatch --test-only`, some at a time."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.pipeline.edits import edits_for
from slurm_ext.advisor.what_if.layout import GpuOption, JobLayout
from slurm_ext.advisor.what_if.shapes import ClusterNodes
from slurm_ext.core.errors import SlurmError
from slurm_ext.core.records import Decision, Shape, Submission
from slurm_ext.slurm import NodeInfo, SlurmClient, StartEstimate

# A question takes 4 ms of slurmctld and of the user's CPU each; four hide each other's start, and
# do not look like a storm. Where the controller is away, sbatch itself gives up after 18 s.
AT_ONCE = 4
DEADLINE_S = 10.0
MAX_WHY = 100
NO_CLUSTER = "Slurm's commands find no slurm.conf here: SLURM_CONF or paths.slurm_conf names it"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartQuery:
    """The submission that is asked about, in its written layout."""

    job: Submission
    script: str
    written: JobLayout
    request: GpuOption | None = None
    rules: PartitionRules | None = None
    options: Mapping[str, str | None] = field(default_factory=dict)  # of the script
    machines: ClusterNodes = field(default_factory=ClusterNodes)


def starts(
    client: SlurmClient, question: StartQuery, layouts: Sequence[JobLayout], deadline_s: float
) -> dict[JobLayout, StartEstimate]:
    """Each layout's start, refusal or the reason why neither is known; never an error.

    What differs in its workers only is the same to Slurm, and asked once.
    """
    from concurrent.futures import ThreadPoolExecutor

    until = time.monotonic() + deadline_s
    submissions = {layout: submission(question, layout) for layout in layouts}
    first = {words: layout for layout, words in reversed(submissions.items())}

    def ask(words: tuple[str, ...]) -> StartEstimate:
        layout = first[words]
        if not question.machines.has(layout.gpu_type):
            return StartEstimate(why="Slurm knows no GPUs by that name")
        left_s = until - time.monotonic()
        if left_s <= 0:
            return StartEstimate(why=f"Slurm did not answer within {deadline_s:g} s")
        try:
            answer = client.start_of(words, timeout_s=left_s)
        except SlurmError as error:
            return StartEstimate(why=brief(error))
        return _explained(answer, layout, question.machines)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        estimates = dict(zip(first, pool.map(ask, first), strict=True))
    return {layout: estimates[words] for layout, words in submissions.items()}


def submission(question: StartQuery, layout: JobLayout) -> tuple[str, ...]:
    """Arguments of `sbatch`: the row's options, then the script with its own."""
    return (*options_for(question, layout), question.script, *question.job.argv[1:])


def options_for(question: StartQuery, layout: JobLayout) -> tuple[str, ...]:
    """The options that turn the script into this layout; none for the written one."""
    written, options = question.written, list[str]()
    if "cpus-per-gpu" in question.options and layout.gpus:  # Slurm takes one of the two
        if layout.cpus * written.gpus != written.cpus * layout.gpus:
            options.append(f"--cpus-per-gpu={-(-layout.cpus // layout.gpus)}")
    elif layout.cpus_per_task != written.cpus_per_task:
        options.append(f"--cpus-per-task={layout.cpus_per_task}")
    options += _memory(question, layout)
    if layout.nodes != written.nodes:
        options.append(f"--nodes={layout.nodes}")
    if (layout.tasks, layout.nodes) != (written.tasks, written.nodes):
        options += _tasks(question, layout)
    where = (layout.gpus, layout.gpu_type, layout.nodes)
    if question.request and where != (written.gpus, written.gpu_type, written.nodes):
        options.append(question.request.words(layout))
    return tuple(options)


def machines_of(nodes: Sequence[NodeInfo], partition: str | None) -> ClusterNodes:
    """The nodes that the job may go to; of no partition in particular: all."""
    names = set((partition or "").split(",")) - {""}
    mine = [node for node in nodes if not names or names & set(node.partitions)]
    kinds = (key.partition(":")[2] for node in mine for key in node.gres if key[:4] == "gpu:")
    return ClusterNodes(
        nodes=len(mine) or None,
        cpus=max((node.cpus for node in mine), default=None),
        gpus=max((node.gres.get("gpu", 0) for node in mine), default=None),
        gpu_types=tuple(dict.fromkeys(kinds)),
    )


def brief(error: SlurmError) -> str:
    """A failed command in one clause: its last line is the one that says what is wrong."""
    lines = [
        "".join(c for c in line if c.isprintable()).strip() for line in error.output.splitlines()
    ]
    last = next((line for line in reversed(lines) if line), "")
    if "establish a configuration source" in last:
        return NO_CLUSTER
    most = None if error.status is None else MAX_WHY  # ours say what to do at their end
    return last[:most] or f"{error.command.split()[0]} failed"


def _memory(question: StartQuery, layout: JobLayout) -> list[str]:
    """As dlqueue itself would set it (edits.py); with other GPUs, memory goes with the CPUs."""
    if layout.gpus != question.written.gpus:
        return []
    before = Shape(cpus_per_task=question.written.cpus_per_task, num_workers=0)
    after = replace(before, cpus_per_task=layout.cpus_per_task)
    change = Decision(action="change", reason="", before=before, after=after)
    mem_mib = edits_for(question.job, change, question.rules).min_mem_per_cpu
    return [] if mem_mib is None else [f"--mem-per-cpu={mem_mib}"]


def _tasks(question: StartQuery, layout: JobLayout) -> list[str]:
    per_node = "ntasks-per-node" in question.options
    names = {"ntasks-per-node": per_node, "ntasks": "ntasks" in question.options or not per_node}
    counts = {"ntasks-per-node": layout.tasks_per_node, "ntasks": layout.tasks}
    return [f"--{name}={counts[name]}" for name, used in names.items() if used]


def _explained(estimate: StartEstimate, layout: JobLayout, machines: ClusterNodes) -> StartEstimate:
    """Slurm's `not available` with what is too much, where that is plain to see."""
    if not estimate.refused or not estimate.refused.startswith("no node has that many"):
        return estimate
    cpus, gpus = layout.cpus_per_task * layout.tasks_per_node, -(-layout.gpus // layout.nodes)
    if machines.nodes is not None and layout.nodes > machines.nodes:
        return StartEstimate(refused=f"more nodes than there are ({machines.nodes})")
    if machines.cpus is not None and cpus > machines.cpus:
        return StartEstimate(refused=f"more CPUs than any node has ({machines.cpus})")
    if machines.gpus is not None and gpus > machines.gpus:
        return StartEstimate(refused=f"more GPUs than any node has ({machines.gpus})")
    return estimate
