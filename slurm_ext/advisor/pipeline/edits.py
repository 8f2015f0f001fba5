"""From a chosen shape to the fields of the job that must move together (slurm-facts 1.2). Pure."""

from slurm_ext.advisor.evidence.summary import EvidenceSummary
from slurm_ext.advisor.limits.bounds import (
    PartitionRules,
    cpus_of,
    most_per_cpu_mib,
    per_cpu_mib,
    tasks_of,
)
from slurm_ext.core.records import Decision, Edits, Submission


def edits_for(
    job: Submission,
    decision: Decision,
    rules: PartitionRules | None,
    *,
    workers_stay: bool = False,
    threads: int | None = None,
) -> Edits:
    """Everything that makes `decision` true.

    The job's memory never shrinks: where it comes with the CPUs, fewer CPUs each bring more.
    Workers that stay are not asked for. `threads`: the most that torch starts in each process,
    where CPUs come; None: as it chooses.
    """
    cpus, workers = decision.after.cpus_per_task, decision.after.num_workers
    env = {} if workers_stay else {"DLQUEUE_NUM_WORKERS": str(workers)}
    if cpus == cpus_of(job):
        return Edits(env=env)
    if threads is not None and cpus > cpus_of(job):
        env["DLQUEUE_NUM_THREADS"] = str(threads)
    env |= {"SLURM_CPUS_PER_TASK": str(cpus), "SRUN_CPUS_PER_TASK": str(cpus)}
    mem_per_cpu = _mem_per_cpu(job, cpus, rules)
    if mem_per_cpu is not None:
        env["SLURM_MEM_PER_CPU"] = str(mem_per_cpu)  # or a step asks for the old one, in vain
    return Edits(
        cpus_per_task=cpus,
        min_cpus=tasks_of(job) * cpus,
        pn_min_cpus=cpus,
        min_mem_per_cpu=mem_per_cpu,
        env=env,
    )


def most_threads(job: Submission, decision: Decision, summary: EvidenceSummary) -> int | None:
    """Torch's threads in each process of a job that gets more CPUs; None: it may use what comes.

    A job that kept its cores had as many as these. Those that come for workers are the loader's
    alone: torch would start a thread for each, which spins on it and adds up numbers in another
    order. A step on CPUs may use what comes, but processes of one task part its cores: with as many
    threads as all of these, each would wait for the others'.
    """
    written, processes = cpus_of(job), summary.whole.per_task
    if summary.estimate is None or not summary.estimate.threads:
        return written
    if processes == 1:
        return None
    return max(written, decision.after.cpus_per_task // processes)


def _mem_per_cpu(job: Submission, cpus: int, rules: PartitionRules | None) -> int | None:
    """MiB for each CPU so that the task keeps its total; None where memory is per node.

    A partition's default that grows with the CPUs is left to do so. What does not divide is rounded
    up, but never beyond the node or an account's limit: that job would be rejected.
    """
    per_cpu = per_cpu_mib(job, rules)
    if per_cpu is None or (job.mem_per_cpu_mib is None and cpus > cpus_of(job)):
        return None
    total, most = per_cpu * cpus_of(job), most_per_cpu_mib(job, cpus, rules)
    kept = -(-total // cpus)
    return kept if most is None else max(1, total // cpus, min(kept, most))
