"""Storage that several jobs read from: known by a setting, and kept in mind in every division."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slurm_ext.control.allocator.allocator_round import Allocator
from slurm_ext.control.allocator.controlled_job import ControlledJob
from slurm_ext.control.allocator.job_curve import points_of
from slurm_ext.control.allocator.measure import WorkerBounds
from slurm_ext.control.allocator.slurm import SlurmNodeView
from slurm_ext.control.allocator.undo_log import allocator_state
from slurm_ext.core.settings.document import parse
from slurm_ext.node.common.spool_layout import Spool
from slurm_ext.policy.allocator.hysteresis import Retune
from slurm_ext.policy.allocator.job_demands import JobDemand
from slurm_ext.policy.allocator.operating_points import OperatingPoint
from tests.builders import STORAGE_BOUND, estimate_of

MIB = 2**20


def reader(job: str, workers: int) -> Any:
    """A job that reads a MiB a sample, and gains 10 samples/s from each worker."""
    points = tuple(
        OperatingPoint(units=n, workers=n, samples_per_s=10.0 * n, io_bytes_per_s=10.0 * n * MIB)
        for n in range(1, workers + 1)
    )
    demand = JobDemand(job=job, points=points, share_units=2, now=None)
    place = SimpleNamespace(job_id=1)
    return SimpleNamespace(job=SimpleNamespace(place=place), demand=lambda *_: demand)


def decided(folder: Path, storage_mib_per_s: float) -> Retune:
    """What the controller would do with two readers on eight units."""
    text = f"[control]\nstorage_mib_per_s = {storage_mib_per_s}\n"
    controller = Allocator(
        parse(text, "test"),
        cast("Any", None),
        allocator_state(Spool(str(folder))),
        cast("Any", None),
    )
    readers = {job: reader(job, 4) for job in ("a", "b")}
    return controller._decide(readers, {"a": 2, "b": 2}, 8, SlurmNodeView())


@pytest.mark.parametrize(("mib_per_s", "rate"), [(0.0, 40.0), (60.0, 30.0)])
def test_rates_are_what_the_storage_gives(tmp_path: Path, mib_per_s: float, rate: float) -> None:
    """Two jobs that could read 40 MiB/s each are foretold 30 where the storage gives 60 in all."""
    points = decided(tmp_path, mib_per_s).allocation.points
    assert [point.samples_per_s for point in points.values()] == [rate, rate]


def test_all_ranks_of_a_job_read() -> None:
    """What a job asks of the storage is that of all its processes."""
    known = estimate_of(STORAGE_BOUND, bytes_per_sample=1000.0, emulated=True)
    knob = WorkerBounds(now=2, least=1, most=4, baseline=2)
    one = points_of(known, knob, 1, grain_cores=1, ranks=1)[-1]
    two = points_of(known, knob, 2, grain_cores=1, ranks=2)[-1]
    assert one.io_bytes_per_s == pytest.approx(1000 * one.samples_per_s)
    assert two.io_bytes_per_s == pytest.approx(2 * 1000 * two.samples_per_s)


def test_what_a_job_has_already_reads_too() -> None:
    """Otherwise who stays as he is would be held against others as if his data came from nowhere.

    Nothing is made up for a job of which nothing is known.
    """
    job: Any = SimpleNamespace(units=2, workers=2, measured=100.0, ranks=2, _sure_of=lambda _: None)
    job.curve = SimpleNamespace(bytes_per_sample=1000.0)
    now = ControlledJob._now(job, (), 1.0)
    assert now == OperatingPoint(units=2, workers=2, samples_per_s=100.0, io_bytes_per_s=200_000.0)
    job.curve = None
    assert ControlledJob._now(job, (), 1.0) == OperatingPoint(
        units=2, workers=2, samples_per_s=100.0
    )
