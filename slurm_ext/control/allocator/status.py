"""Status of the allocator: a row for each job that it controls. Pure."""

from collections.abc import Mapping
from typing import Any

from slurm_ext.control.allocator.controlled_job import ControlledJob
from slurm_ext.policy.allocator.allocate import Allocation


def rows(
    controlled: Mapping[str, ControlledJob], wanted: Allocation | None
) -> list[dict[str, Any]]:
    """Each job as `dlqueue control status` shows it."""
    return [_row(key, job, wanted) for key, job in sorted(controlled.items())]


def _row(key: str, job: ControlledJob, wanted: Allocation | None) -> dict[str, Any]:
    point = wanted.points.get(key) if wanted else None
    return {
        "job": key,
        "share_units": job.share_units,
        "units": job.units,
        "wanted_units": point.units if point else None,
        "read_mib_per_s": _mib(job.share.read_bytes_per_s),
        "workers": job.knob.now,
        "wanted_workers": point.workers if point else None,
        "predicted_samples_per_s": (point.samples_per_s or None) if point else None,
        "measured_samples_per_s": job.measured,
        "reason": wanted.reason.get(key, "") if wanted else "",
    }


def _mib(bytes_per_s: float | None) -> float | None:
    return None if bytes_per_s is None else round(bytes_per_s / 2**20, 3)
