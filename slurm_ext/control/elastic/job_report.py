"""Report of an elastic job: WORK_DIR/dlqueue-elastic-JOBID.json, written by the job.

    {"v": 1, "left": iterations at the initial batch, "limits": {"initial", "most", "local_least",
     "local_most"}, "noise": {"square", "variance"}, "steps": [{"gpus", "nodes", "local",
     "compute_s", "sync_s"}, ...]}

It is a user's file: a link, a pipe, somebody else's, a large or an odd one is taken as none, and
said why. The report changes its own job only, within the bounds that its owner gave.
"""

import json
from math import isfinite
from pathlib import Path
from typing import Any

from slurm_ext.model.scaling.goodput import BatchLimits, GradientNoise
from slurm_ext.model.scaling.goodput_speed import StepMeasurement
from slurm_ext.node.common.files import UnusableFileError, read_bounded
from slurm_ext.policy.elastic.utility import GoodputReport
from slurm_ext.slurm.records import JobInfo

VERSION, MOST_BYTES, MOST_STEPS, LARGEST = 1, 1 << 16, 256, 1e12


def report_of(job: JobInfo) -> tuple[GoodputReport | None, str | None]:
    """The job's report; or none, and why where there is a file that cannot be used."""
    path = Path(job.work_dir) / f"dlqueue-elastic-{job.job_id}.json"
    if not job.work_dir.startswith("/"):
        return None, None
    try:
        body = read_bounded(str(path), MOST_BYTES, owner=job.user_id if job.user_id >= 0 else None)
        return parsed(json.loads(body)), None
    except FileNotFoundError:
        return None, None
    except (OSError, UnusableFileError, ValueError, KeyError, TypeError, RecursionError) as error:
        return None, f"{path.name}: {error!r}"


def parsed(body: Any) -> GoodputReport:
    """Raises ValueError, KeyError or TypeError where it is not a report."""
    if body["v"] != VERSION:
        raise ValueError(f"version {body['v']!r}, expected {VERSION}")
    limits = BatchLimits(**{name: _count(body["limits"], name) for name in BatchLimits.__slots__})
    if not (limits.initial <= limits.most and limits.local_least <= limits.local_most):
        raise ValueError("limits: expected initial <= most and local_least <= local_most")
    noise = GradientNoise(
        **{name: _positive(body["noise"], name) for name in GradientNoise.__slots__}
    )
    steps = tuple(_step(step) for step in body["steps"][:MOST_STEPS])
    return GoodputReport(left=_number(body, "left"), limits=limits, noise=noise, steps=steps)


def _step(step: Any) -> StepMeasurement:
    gpus, nodes = _count(step, "gpus"), _count(step, "nodes")
    if nodes > gpus:
        raise ValueError(f"{gpus} GPUs on {nodes} nodes")
    return StepMeasurement(
        gpus=gpus,
        nodes=nodes,
        most=-(-gpus // nodes),
        local=_positive(step, "local"),
        compute_s=_positive(step, "compute_s"),
        sync_s=_number(step, "sync_s"),
    )


def _number(of: Any, name: str) -> float:
    value = float(of[name])
    if isinstance(of[name], bool | str) or not (isfinite(value) and 0 <= value <= LARGEST):
        raise ValueError(f"{name} = {of[name]!r}: expected a number from 0 to {LARGEST:g}")
    return value


def _positive(of: Any, name: str) -> float:
    if (value := _number(of, name)) < 1 / LARGEST:
        raise ValueError(f"{name} = {of[name]!r}: expected above 0")
    return value


def _count(of: Any, name: str) -> int:
    value = _number(of, name)
    if value < 1 or value != int(value):
        raise ValueError(f"{name} = {of[name]!r}: expected a whole number above 0")
    return int(value)
