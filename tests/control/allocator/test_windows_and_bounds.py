"""What the allocator measures: windows, bounds of workers, and a job's curve in its units."""

from typing import Any

import pytest

from slurm_ext.control.allocator.controlled_job import ControlledJob, WindowPace
from slurm_ext.control.allocator.job_curve import baseline, points_of, rate_at, utilisation
from slurm_ext.control.allocator.jobs import alive
from slurm_ext.control.allocator.measure import WorkerBounds, difference, run_between, worker_bounds
from slurm_ext.model.throughput.estimate import Estimate
from tests.builders import STORAGE_BOUND, estimate_of
from tests.control.allocator.test_control_hostile import summary
from tests.control.allocator.test_node_units import Clock, later, spooled

PACE = WindowPace(window_s=10.0, settle_s=2.0)


def curve() -> Estimate:
    """More workers make it faster."""
    return estimate_of(STORAGE_BOUND, bytes_per_sample=1000.0)


@pytest.mark.parametrize(
    ("workers", "whole"), [(2.0, True), (2.25, True), (2.26, False), (2.74, False), (2.75, True)]
)
def test_a_window_needs_a_whole_number_of_workers(workers: float, whole: bool) -> None:
    """A quarter off is still one number; more is a gate that moved meanwhile."""
    assert bool(difference([], [later(workers)])) is whole


def test_a_window_without_samples_or_time_is_none() -> None:
    """Nor one of a process or loader that was not there before."""
    old = later(2.0)
    assert difference([old], [later(2.0, samples=901)]) == []
    assert difference([old], [later(2.0, wall_s=11.0, samples=900)]) == []
    (window,) = difference([old], [later(2.0, wall_s=20.0, samples=1800)])
    assert window["loaders"][0]["phases"][0]["samples"] == 900
    assert difference([{**old, "pid": 1}], [later(2.0, wall_s=20.0, samples=1800)]) == []


def test_a_run_between_two_looks_is_of_one_process() -> None:
    """Cores and CPUs are divided among the ranks."""
    first = later(2.0)
    second = {**first, "pid": first["pid"] + 1, "rank": 1}
    run = run_between([], [first, second], cpus=4, gpus=2, cores=3.0)
    assert run is not None
    assert run.cores == 1.5
    unheld = run_between([], [first], cpus=4, gpus=0, cores=None)
    assert unheld is not None
    assert unheld.cores == 2  # as the summary says


@pytest.mark.parametrize(
    ("gate", "highest", "most", "bounds"),
    [
        (2, 8, 16, (2, 1, 8)),
        (2, 8, 4, (2, 1, 4)),
        (6, 8, 4, (6, 1, 6)),
        (1, 1, 4, (1, 1, 1)),
        (0, 8, 16, (0, 0, 8)),
        (2, 0, 16, (3, 3, 3)),
        (None, 8, 16, (3, 3, 3)),
        (2, None, 16, (3, 3, 3)),
        (True, 8, 16, (3, 3, 3)),
    ],
)
def test_bounds_of_workers(
    gate: Any, highest: Any, most: int, bounds: tuple[int, int, int]
) -> None:
    """A gate can be opened up to the started workers and the site's most; without one, nothing."""
    one = summary()
    one["loaders"][0].update(gate=gate, most_workers=highest, user_num_workers=3)
    found = worker_bounds([one], most)
    assert found == WorkerBounds(now=bounds[0], least=bounds[1], most=bounds[2], baseline=3)
    assert found.movable is (bounds[1] < bounds[2])


def test_the_busiest_loader_counts() -> None:
    """A script's own number of workers that is none is 0."""
    one = summary()
    idle = {**one["loaders"][0], "id": 1, "phases": [], "gate": 9}
    one["loaders"].append(idle)
    found = worker_bounds([one], 16)
    assert found is not None
    assert found.now == 2
    for odd in (-1, None, "4", True):
        one["loaders"][0].update(user_num_workers=odd)
        found = worker_bounds([one], 16)
        assert found is not None
        assert found.baseline == 0
    assert worker_bounds([], 16) is None


def test_a_process_is_alive() -> None:
    """A number that is none, or of nobody, is not."""
    import os

    assert alive(os.getpid())
    for nothing in (0, -1, 1 << 22, (1 << 22) - 1, "1", None, True):
        assert not alive(nothing)


def test_rates_are_of_one_process_and_reads_of_all() -> None:
    """Units are of the job; cores of a process are its part."""
    known, bounds = curve(), WorkerBounds(now=2, least=1, most=4, baseline=3)
    assert rate_at(known, 4, 2, grain_cores=0.5, ranks=1) == rate_at(
        known, 4, 2, grain_cores=1.0, ranks=2
    )
    share = baseline(known, bounds, 4, grain_cores=1.0, ranks=2)
    assert share is not None
    assert (share.units, share.workers) == (4, 3)
    assert share.samples_per_s == rate_at(known, 4, 3, grain_cores=1.0, ranks=2)
    assert share.io_bytes_per_s == pytest.approx(2 * 1000 * share.samples_per_s)
    assert baseline(None, bounds, 4, grain_cores=1.0, ranks=1) is None
    assert points_of(None, bounds, 4, grain_cores=1.0, ranks=1) == ()


def test_lending_keeps_the_scripts_workers() -> None:
    """Others are on the same cores then: never fewer workers than the script's own."""
    known, bounds = curve(), WorkerBounds(now=2, least=1, most=4, baseline=3)
    lent = points_of(known, bounds, 2, grain_cores=1.0, ranks=1, lends=True)
    assert all((point.workers or 0) >= 3 for point in lent)
    small = WorkerBounds(now=2, least=1, most=2, baseline=3)
    assert all(
        point.workers == 2
        for point in points_of(known, small, 2, grain_cores=1.0, ranks=1, lends=True)
    )


def test_utilisation_is_cpu_time_over_cores() -> None:
    """Twice the cores that a job cannot use are half used; two ranks use twice as much."""
    known = curve()
    one = utilisation(known, 8.0, 2, ranks=1)
    assert utilisation(known, 16.0, 2, ranks=1) == pytest.approx(one / 2, rel=0.05)
    assert utilisation(known, 16.0, 2, ranks=2) == pytest.approx(one, rel=1e-9)


def controlled(clock: Clock) -> ControlledJob:
    """A job under control."""
    del clock
    return ControlledJob(spooled(), lambda: None, PACE)
