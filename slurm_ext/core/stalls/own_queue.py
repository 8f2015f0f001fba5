"""Tells whether a job's own processes explain how long they queued for cores. Pure.

So the record of a run says in which of two worlds it was: on cores of its own, or on crowded ones.

k processes of which some are ready queue only while more than c are: then c compute and at most
k - c wait. So with nobody else on its cores a job that computes for B seconds queues for at most
B * (k - c) / c, whenever its processes are ready; d processes of others for each core, always
ready, add B * d. A kernel also wakes two of the job's own on one core while another is idle: of 541
runs that had their cores to themselves 37 seemed to need others, who had not delayed them. What
says more than that is a wait that is felt, and as long as beside BY_OTHERS of others for each core:
5 of those 541, and 107 of 190 runs that did have others there (117 before).
"""

from math import ceil

from slurm_ext.core.records import LoaderRun

WAITED = 0.1  # share of the time in which they could compute: less is the kernel's own pauses
BY_OTHERS = 0.2  # of others for each core, always ready
FELT = 0.05  # share of a run's time that each of its processes waited: less delays no training


def needs_others(processes: float, cores: float, computed_s: float, queued_s: float) -> bool:
    """True if `processes` alone on `cores` cannot have queued so long for what they computed."""
    own = max(0.0, processes / cores - 1)
    return queued_s > (own + BY_OTHERS) * computed_s


def waited_for_others(run: LoaderRun) -> bool:
    """True if a run queued for cores notably, and longer than its own processes explain."""
    own = processes(run), run.cores, computed_s(run), queued_s(run)
    return felt(run) and needs_others(*own)


def felt(run: LoaderRun) -> bool:
    """True if its processes waited for cores for a notable share of the run."""
    return queued_s(run) * run.samples_per_s >= FELT * processes(run)


def processes(run: LoaderRun) -> int:
    """Processes and threads that may want a core at once: the step's, and each worker."""
    threads = (run.threads or ceil(run.cores)) if run.on_cpu else 1
    busy = ceil(run.samples_per_s * (run.main_cpu_s or 0.0))
    return max(1, threads, busy) + run.workers


def queued_s(run: LoaderRun) -> float:
    """Seconds for a sample that its processes were ready and had no core.

    Without workers the loop fetches itself, and its own wait has the fetches' in it.
    """
    fetch_s, main_s = run.fetch_queued_s or 0.0, run.main_queued_s or 0.0
    return fetch_s + main_s if run.workers else max(fetch_s, main_s)


def computed_s(run: LoaderRun) -> float:
    """CPU seconds for a sample."""
    return run.fetch_cpu_s + (run.main_cpu_s or 0.0)


def waited(run: LoaderRun) -> float:
    """The share of the time in which its processes could compute that they waited for a core."""
    waited_s = queued_s(run)
    return waited_s / (waited_s + computed_s(run)) if waited_s > 0 else 0.0


def crowded(run: LoaderRun) -> bool | None:
    """True if others wanted a run's cores; None: nobody knows, as its own processes may have."""
    if run.fetch_queued_s is None or run.main_queued_s is None:
        return None
    if waited_for_others(run):
        return True
    return None if waited(run) > WAITED else False
