"""Status of the lender: a row for each job that lends or borrows, or could. Pure."""

from collections.abc import Mapping
from typing import Any

from slurm_ext.control.allocator.cgroup.cores import format_cores
from slurm_ext.control.lending.watched_job import WatchedJob


def rows(watched: Mapping[str, WatchedJob], loans: Mapping[int, str]) -> list[dict[str, Any]]:
    """Each job as `dlqueue control status` shows it."""
    return [_row(key, job, loans) for key, job in sorted(watched.items())]


def _row(key: str, job: WatchedJob, loans: Mapping[int, str]) -> dict[str, Any]:
    own, use, progress = job.cores or frozenset(), job.use, job.progress
    return {
        "job": key,
        "cores": format_cores(own),
        "lends": format_cores(own & set(loans)),
        "borrows": format_cores({core for core, borrower in loans.items() if borrower == key}),
        "lent_workers": len(job.workers),
        "used_cores": round(use.used_cores, 3) if use else None,
        "queued_cores": round(use.queued_cores, 3) if use else None,
        "lent_use": round(job.lent_use.used_cores, 3) if job.lent_use else None,
        "wait_share": round(progress.wait_share, 3) if progress else None,
        "samples_per_s": round(progress.samples_per_s, 3) if progress else None,
        "disturbed_by": job.disturbed_by,
    }
