"""Tells whether a job's own processes explain how long they queued for cores. Pure.

So the record of a run says in which of two worlds it was: on cores of its own, or on crowded ones.

k processes of which some are ready queue only while more than c are: then c compute and at most
k - c wait. So with nobody else on its cores a job that computes for B seconds queues for at most
B * (k - c) / c, whenever its processes are ready; d processes of others for each core, always
ready, add B * d.
"""

from math import ceil

from slurm_ext.core.records import LoaderRun

WAITED = 0.1  # others for each core: fewer are the kernel's own pauses; and as a share of the time


def needs_others(processes: float, cores: float, computed_s: float, queued_s: float) -> bool:
    """True if `processes` alone on `cores` cannot have queued so long for what they computed."""
    own = max(0.0, processes / cores - 1)
    return queued_s > (own + WAITED) * computed_s


def waited_for_others(run: LoaderRun) -> bool:
    """True if a run queued for cores longer than its own processes explain."""
    return needs_others(processes(run), run.cores, computed_s(run), queued_s(run))


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
