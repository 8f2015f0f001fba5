"""The ledger's knowledge of the jobs that Slurm lists, for the advisor and for the elastic loop."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from slurm_ext.advisor.history_writer.slurm_record import submitted
from slurm_ext.advisor.history_writer.untied import candidates, untied
from slurm_ext.advisor.sharing.gpu_sharers import SharedGpuQueue, shared_gpu_jobs, write
from slurm_ext.core import elastic_requests
from slurm_ext.history.ingest.decisions import elastic_jobs, solo_key_of, unclaimed_rows
from slurm_ext.history.ingest.job_decisions import decision_of
from slurm_ext.history.store.reading import explaining
from slurm_ext.history.store.store import History
from slurm_ext.slurm import JobInfo

MOST_NAMES = 16  # scripts that one job can be; as many different partners are looked at
# Of the jobs that a look is about most have none: their numbers alone say so, at once.
_KNOWN = "SELECT 1 FROM decisions WHERE job_id = ? LIMIT 1"


def tell_sharers(history: History, jobs: Sequence[JobInfo], folder: Path, at_s: float) -> None:
    """Let the answering process know who shares GPUs; `at_s` is from before the listing.

    A job that can be several scripts stands there as each of them: the worst partner counts.
    """
    sharers = shared_gpu_jobs(jobs)
    maybe = possible(history, jobs, solo_key_of) if sharers else {}
    by_id = {job.job_id: job for job in jobs}
    named = [
        replace(sharer, key=key)
        for sharer in sharers
        for key in _names(history, by_id[int(sharer.job)], maybe)
    ]
    write(folder, SharedGpuQueue(at_s=at_s, jobs=tuple(named)))


def tell_elastic(history: History, jobs: Sequence[JobInfo], folder: Path) -> None:
    """Let the elastic loop know whose environment let their size change."""
    said = elastic_jobs(history)
    maybe = possible(history, jobs, lambda row: row["elastic"])
    likely = {job: size for job, (size, *more) in maybe.items() if size and not more}
    sizes = {
        job.job_id: _size(history, job, likely.get(job.job_id))
        for job in jobs
        if not job.ended and (job.job_id in likely or (job.job_id, job.user_id, job.name) in said)
    }
    elastic_requests.write(folder, {job: size for job, size in sizes.items() if size})


def _size(history: History, job: JobInfo, likely: str | None) -> str | None:
    """The word of the job's own decision, else the likely one."""
    ledger = decision_of(history, submitted(job))
    return likely if ledger is None else ledger["elastic"]


def possible(
    history: History,
    jobs: Sequence[JobInfo],
    of_row: Callable[[Mapping[str, Any]], str | None],
) -> dict[int, set[str | None]]:
    """Values of `of_row` that each job not tied yet can mean; a sweep's are all the same."""
    rows = unclaimed_rows(history)
    values = {row["token"]: of_row(row) for row in rows}
    sizes: dict[int, set[str | None]] = {}
    for token, job_ids in candidates(untied(rows), jobs).items():
        for job_id in job_ids:
            sizes.setdefault(job_id, set()).add(values[token])
    return sizes


def is_tied(history: History, job: JobInfo) -> bool:
    """True if the ledger has the job's own decision."""
    with explaining(history.path):
        known = history.conn.execute(_KNOWN, (job.job_id,)).fetchone()
    return known is not None and decision_of(history, submitted(job)) is not None


def _names(
    history: History, job: JobInfo, maybe: Mapping[int, set[str | None]]
) -> Iterable[str | None]:
    """Signatures of the scripts that the job can be; None where it can be any."""
    ledger = decision_of(history, submitted(job))
    if ledger is not None:
        return [solo_key_of(ledger)]
    names = maybe.get(job.job_id, set())
    return sorted(names, key=str) if 0 < len(names) <= MOST_NAMES else [None]
