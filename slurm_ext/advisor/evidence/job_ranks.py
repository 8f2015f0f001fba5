"""Ranks of a job that is submitted: training processes, which its request only hints at. Pure.

Predictions are of one process, and people read the whole job's rate. A job whose own runs answer
has as many processes as those had; of one that only other users' runs know, its GPUs and tasks say.
"""

from collections.abc import Sequence

from slurm_ext.core.gpu_request import gpus_of, tasks_of
from slurm_ext.core.records import LoaderRun, Submission


def ranks_of(gpus: int, tasks: int, runs: Sequence[LoaderRun]) -> int:
    """As many a GPU as the newest run had, or as many as it had without one; else one each."""
    for run in runs:
        seen_gpus = run.gpus * (run.nodes or 1)
        if run.ranks and gpus and seen_gpus:
            return max(1, round(run.ranks * gpus / seen_gpus))
        if run.ranks and not gpus and not seen_gpus:
            return run.ranks
    return gpus or tasks


def ranks_by_others(job: Submission, own: Sequence[LoaderRun], others: Sequence[LoaderRun]) -> int:
    """Ranks of a job that other users' runs answer for; `own` are runs of it that do not.

    Others' runs tell how many processes such a program has on a GPU. Without GPUs they tell
    nothing: how many tasks they asked for is theirs.
    """
    on_gpus = [run for run in others if run.gpus]
    return ranks_of(gpus_of(job), tasks_of(job), [*own, *on_gpus])
