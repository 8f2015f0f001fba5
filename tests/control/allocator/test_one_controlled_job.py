"""One job under the allocator: its windows, what it has, and what there is to undo."""

import pytest

from slurm_ext.control.allocator import controlled_job
from slurm_ext.control.allocator.controlled_job import ControlledJob
from slurm_ext.control.allocator.job_curve import rate_at
from slurm_ext.control.allocator.measure import WorkerBounds
from tests.control.allocator.test_node_units import Clock, later, running, spooled
from tests.control.allocator.test_windows_and_bounds import PACE, controlled, curve


def look(job: ControlledJob, workers: float, wall_s: float, samples: int) -> None:
    """The job's summaries at a time."""
    job.look(running(later(workers, wall_s, samples)), 16)


def test_the_first_sure_window_is_taken_and_the_next_ones_are_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Everything since the start; then windows of ten seconds, on the second."""
    clock = Clock(monkeypatch)
    job = controlled(clock)
    look(job, 2.0, 10.0, 900)
    assert job.measured == 90.0
    clock.now_s += 9.9
    look(job, 2.0, 20.0, 2900)
    assert job.measured == 90.0
    clock.now_s += 0.1
    look(job, 2.0, 20.0, 2900)
    assert job.measured == 200.0


def test_after_a_change_the_queues_settle_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seconds, then a window of its own."""
    clock = Clock(monkeypatch)
    job = controlled(clock)
    look(job, 2.0, 10.0, 900)
    job.acted_on(changed=True)
    clock.now_s += 1.9
    look(job, 2.0, 12.0, 1900)
    clock.now_s += 0.1
    look(job, 2.0, 14.0, 2900)
    assert job.measured == 90.0
    clock.now_s += 10.0
    look(job, 2.0, 24.0, 3900)
    assert job.measured == 100.0


def test_a_window_without_anything_sure_stays_open_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four windows long; then the next one begins."""
    clock = Clock(monkeypatch)
    job = controlled(clock)
    look(job, 2.0, 10.0, 900)
    clock.now_s += 39.9
    look(job, 2.0, 10.0, 900)
    clock.now_s += 0.05
    look(job, 2.0, 30.0, 1900)
    assert job.measured == 50.0
    clock.now_s += 40.0
    look(job, 2.0, 30.0, 1900)
    clock.now_s += 10.0
    look(job, 2.0, 40.0, 3900)
    assert job.measured == 200.0
    assert controlled_job.PATIENCE == 4


def test_a_job_as_the_policy_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Least units are a core for each GPU, within its share; news until something was done."""
    clock = Clock(monkeypatch)
    job = ControlledJob(spooled(gpus=2), lambda: None, PACE)
    fresh = job.demand(4, 3, 0.5, 60.0)
    assert (fresh.least_units, fresh.points, fresh.now, fresh.news) == (3, (), None, False)
    assert (fresh.remaining_s, fresh.share_units, fresh.baseline) == (60.0, 3, None)
    assert job.demand(8, 8, 0.5, None).least_units == 4
    job.curve = curve()
    known = job.demand(4, 3, 1.0, None)
    assert (len(known.points), known.news) == (4, True)
    assert known.baseline is not None
    job.acted_on(changed=False)
    assert not job.demand(4, 3, 1.0, None).news
    assert controlled(clock).demand(4, 3, 1.0, None).least_units == 1


def test_what_a_job_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its measured rate, else the curve's, else none; by its weight alone what it is sure of."""
    job = controlled(Clock(monkeypatch))
    job.curve, job.units, job.workers = curve(), 2, 3
    points = job.demand(4, 2, 1.0, None).points
    have = job.demand(4, 2, 1.0, None).now
    assert have is not None
    assert (have.units, have.workers, have.samples_per_s) == (2, 3, points[1].samples_per_s)
    job.units = 99
    beyond = job.demand(4, 2, 1.0, None).now
    assert beyond is not None
    assert (beyond.units, beyond.samples_per_s, beyond.io_bytes_per_s) == (99, 0.0, 0.0)
    job.units = 2
    job.measured = 55.0
    have = job.demand(4, 2, 1.0, None).now
    assert have is not None
    assert have.samples_per_s == 55.0
    assert have.io_bytes_per_s == pytest.approx(55_000.0)
    job.share.weight = (1.0, 1.0)
    have = job.demand(4, 2, 1.0, None).now
    assert have is not None
    assert have.samples_per_s == rate_at(job.curve, 2, 3, grain_cores=1.0, ranks=1)


def test_what_there_is_to_undo(monkeypatch: pytest.MonkeyPatch) -> None:
    """A share or a gate; afterwards nothing."""
    job = controlled(Clock(monkeypatch))
    assert not job.changed
    job.workers, job.units = 3, 2
    assert job.changed
    assert job.restore()
    assert (job.changed, job.units, job.workers) == (False, None, None)
    job.share.cores = 1.0
    assert job.changed


def test_utilisation_without_a_curve_is_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one it is at most all."""
    job = controlled(Clock(monkeypatch))
    assert job.utilisation(2.0, None) == 1.0
    job.curve, job.knob = curve(), WorkerBounds(now=2, least=1, most=4, baseline=2)
    assert 0 < job.utilisation(64.0, 4) < 1.0
    assert job.utilisation(1e-6, 4) <= 1.0


def test_the_share_as_written_is_of_all_its_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units and grain are not mixed up."""
    job = controlled(Clock(monkeypatch))
    job.curve, job.knob = curve(), WorkerBounds(now=2, least=1, most=4, baseline=2)
    share = job.demand(8, 3, 0.25, None).baseline
    assert share is not None
    assert share.units == 3
    assert share.samples_per_s == rate_at(job.curve, 3, 2, grain_cores=0.25, ranks=1)
