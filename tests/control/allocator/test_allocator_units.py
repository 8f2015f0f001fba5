"""Units of the node's allocator: windows, bounds of workers, shares, and what Slurm is asked."""

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slurm_ext.control.allocator import actuator, controlled_job, decision_log
from slurm_ext.control.allocator.cgroup.job_location import (
    JobGoneError,
    JobLocation,
    UntrustedJobDirError,
)
from slurm_ext.control.allocator.controlled_job import ControlledJob, WindowPace
from slurm_ext.control.allocator.job_curve import baseline, points_of, rate_at, utilisation
from slurm_ext.control.allocator.jobs import RunningJob, SpooledJob, alive
from slurm_ext.control.allocator.measure import WorkerBounds, difference, run_between, worker_bounds
from slurm_ext.control.allocator.node import Machine, node_mechanisms, slurm_cpus
from slurm_ext.control.allocator.slurm import EVERY_S, EVERY_WHERE_LENT_S, SlurmNodeQuery
from slurm_ext.control.allocator.status import rows
from slurm_ext.model.throughput.estimate import Estimate
from slurm_ext.policy.allocator.operating_points import OperatingPoint
from slurm_ext.slurm import JobInfo, MemoryClient, NodeInfo
from tests.builders import STORAGE_BOUND, estimate_of
from tests.control.allocator.test_control_hostile import summary

NO_MULTIPLE = " is no multiple of control.grain_cores = 2"
PACE = WindowPace(window_s=10.0, settle_s=2.0)


def spooled(cpus: int = 2, gpus: int = 0, why_not: str | None = None) -> SpooledJob:
    """A job of this node."""
    return SpooledJob(
        key="1.0",
        run_dir="/nonexistent",
        place=JobLocation(job_id=1, uid=0, node="n1"),
        cpus=cpus,
        gpus=gpus,
        why_not=why_not,
    )


def running(*summaries: Any, **fields: Any) -> RunningJob:
    """The job with its live summaries."""
    return RunningJob(job=spooled(**fields), summaries=summaries, curve=None)


def curve() -> Estimate:
    """More workers make it faster."""
    return estimate_of(STORAGE_BOUND, bytes_per_sample=1000.0)


# -- the node ----------------------------------------------------------------------------------


def test_units_of_a_node() -> None:
    """Slurm's CPUs are real cores at most; grains are whole."""
    half = Machine(real_cores=4, slurm_cpus=8, grain_cores=0.25)
    assert (half.scale, half.units(1), half.units(3)) == (0.5, 2, 6)
    more = Machine(real_cores=16, slurm_cpus=8, grain_cores=1.0)
    assert (more.scale, more.units(3)) == (1.0, 3)
    assert Machine(real_cores=3, slurm_cpus=8, grain_cores=0.25).units(1) == 1


@pytest.mark.parametrize(
    ("job", "grain", "why"),
    [
        (running({}, cpus=2), 1.0, None),
        (running({}, cpus=7), 1.0, None),
        (running({}, cpus=8), 1.0, "it has the node to itself"),
        (running({}, cpus=2, why_not="of several nodes"), 1.0, "of several nodes"),
        (running(cpus=2), 1.0, "no training that the probe knows runs in it"),
        (
            running({}, cpus=1),
            2.0,
            "its share of 1 cores" + NO_MULTIPLE,
        ),
        (
            running({}, cpus=3),
            2.0,
            "its share of 3 cores" + NO_MULTIPLE,
        ),
        (running({}, cpus=4), 2.0, None),
    ],
)
def test_jobs_that_are_left_alone(job: RunningJob, grain: float, why: str | None) -> None:
    """Each with its reason; a whole number of grains is controlled."""
    assert Machine(real_cores=8, slurm_cpus=8, grain_cores=grain).why_not(job) == why


def test_cpus_of_a_node_are_never_guessed_upwards() -> None:
    """Slurm's answer, or the real cores, and at least what its jobs were given."""
    jobs = [running(cpus=3), running(cpus=2)]
    assert slurm_cpus(8, 4, jobs) == 8
    assert slurm_cpus(None, 4, jobs) == 5
    assert slurm_cpus(None, 6, jobs) == 6
    assert slurm_cpus(2, 6, jobs) == 5
    assert slurm_cpus(0, 0, []) == 1


# -- Slurm -------------------------------------------------------------------------------------


class Clock:
    """A clock that the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)


def cluster() -> MemoryClient:
    """A node of eight CPUs, three of them given to a job."""
    node = NodeInfo(name="n1", cpus=8, mem_mib=1, state="MIXED")
    job = JobInfo(job_id=1, state="RUNNING", nodes="n1", cpus=3, end_time_s=5000)
    return MemoryClient(known_nodes=(node,), known_jobs=(job,))


@pytest.mark.parametrize(("lends", "every_s"), [(False, EVERY_S), (True, EVERY_WHERE_LENT_S)])
def test_slurm_is_asked_now_and_then(
    monkeypatch: pytest.MonkeyPatch, lends: bool, every_s: float
) -> None:
    """Again when it is due, or when other jobs run; idle CPUs count only where they are lent."""
    clock, client = Clock(monkeypatch), cluster()
    query = SlurmNodeQuery(client, lends_idle=lends)
    view = query.look("n1", frozenset({"1.0"}))
    assert (view.cpus, view.idle_cpus, dict(view.end_s)) == (8, 5 if lends else 0, {1: 5000.0})
    client.known_nodes = ()
    clock.now_s += every_s - 0.001
    assert query.look("n1", frozenset({"1.0"})).cpus == 8
    clock.now_s += 0.001
    assert query.look("n1", frozenset({"1.0"})).cpus is None
    client.known_nodes = cluster().known_nodes
    assert query.look("n1", frozenset({"1.0"})).cpus is None
    assert query.look("n1", frozenset({"2.0"})).cpus == 8


def test_jobs_on_several_nodes_leave_nothing_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which CPUs of this node they have is not known; jobs that wait have none."""
    Clock(monkeypatch)
    for nodes in ("n1,n2", "n[1-2]"):
        client = cluster()
        wide = JobInfo(job_id=2, state="RUNNING", nodes=nodes, cpus=4)
        client.known_jobs = (*client.known_jobs, wide)
        assert SlurmNodeQuery(client, lends_idle=True).look("n1", frozenset()).idle_cpus == 0
    client = cluster()
    waits = JobInfo(job_id=2, state="PENDING", nodes="n1", cpus=4)
    stands = JobInfo(job_id=3, state="SUSPENDED", nodes="n1", cpus=4)
    client.known_jobs = (*client.known_jobs, waits, stands)
    assert SlurmNodeQuery(client, lends_idle=True).look("n1", frozenset()).idle_cpus == 1


# -- measurements ------------------------------------------------------------------------------


def later(workers: float, wall_s: float = 10.0, samples: int = 900) -> dict[str, Any]:
    """A summary whose loader had so many workers on average since the start."""
    return summary(
        samples=samples,
        batches=samples // 8,
        wall_s=wall_s,
        wait_s=wall_s * 0.4,
        step_s=wall_s * 0.5,
        workers=workers,
        fetch_samples=samples,
        fetch_wall_s=samples * 0.019,
        fetch_cpu_s=samples * 0.018,
        main_cpu_s=wall_s * 0.01,
    )


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


# -- the curve ---------------------------------------------------------------------------------


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


# -- one job -----------------------------------------------------------------------------------


def controlled(clock: Clock) -> ControlledJob:
    """A job under control."""
    del clock
    return ControlledJob(spooled(), lambda: None, PACE)


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
    """Its measured rate, else the curve's; by its weight alone what it is sure of."""
    job = controlled(Clock(monkeypatch))
    job.curve, job.units, job.workers = curve(), 2, 3
    points = job.demand(4, 2, 1.0, None).points
    have = job.demand(4, 2, 1.0, None).now
    assert have is not None
    assert (have.units, have.workers, have.samples_per_s) == (2, 3, points[1].samples_per_s)
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


# -- files -------------------------------------------------------------------------------------


def test_the_decision_log_begins_again_when_it_has_grown(tmp_path: Path) -> None:
    """Beyond a MiB; the old lines are kept beside it."""
    path = tmp_path / "decisions.jsonl"
    decision_log.append(path, acted=True, units=3)
    (line,) = path.read_text().splitlines()
    assert {"acted": True, "units": 3}.items() <= json.loads(line).items()
    path.write_bytes(b"x" * decision_log.MAX_BYTES)
    decision_log.append(path, acted=False)
    assert path.stat().st_size > decision_log.MAX_BYTES
    decision_log.append(path, acted=False)
    assert len(path.read_text().splitlines()) == 1
    assert path.with_suffix(".jsonl.1").exists()


@pytest.mark.parametrize(
    ("controllers", "found"),
    [
        ("cpu cpuset io", ("quota", "cpuset", "affinity")),
        ("cpu io", ("quota", "affinity")),
        ("cpuset", ("cpuset", "affinity")),
        ("", ("affinity",)),
    ],
)
def test_mechanisms_of_a_node(tmp_path: Path, controllers: str, found: tuple[str, ...]) -> None:
    """By the controllers of version 2, or the files of version 1."""
    (tmp_path / "cgroup.controllers").write_text(controllers)
    assert node_mechanisms(str(tmp_path)) == found
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("-1")
    (tmp_path / "cpuset").mkdir()
    (tmp_path / "cpuset" / "cpuset.cpus").write_text("0")
    assert node_mechanisms(str(tmp_path)) == ("quota", "cpuset", "affinity")


# -- acting ------------------------------------------------------------------------------------


class FakeShare:
    """A share that notes what is set."""

    def __init__(self, now: float | None = None, error: Exception | None = None) -> None:
        self.read_bytes_per_s, self.error = now, error

    def read_at_most(self, most: float | None, device: str) -> None:
        """Set it, or fail."""
        del device
        if self.error:
            raise self.error
        self.read_bytes_per_s = most


@pytest.mark.parametrize(
    ("now", "wanted", "new"),
    [
        (None, None, {}),
        (None, 100.0, {"a": 100.0}),
        (100.0, 104.9, {}),
        (100.0, 95.3, {}),
        (100.0, 105.1, {"a": 105.1}),
        (100.0, 94.9, {"a": 94.9}),
        (100.0, None, {"a": 0.0}),
    ],
)
def test_reads_are_limited_again_from_five_percent_on(
    now: float | None, wanted: float | None, new: dict[str, float]
) -> None:
    """A limit that is off by less is left; one that is needed no more goes."""
    job: Any = SimpleNamespace(share=FakeShare(now))
    most = {} if wanted is None else {"a": wanted}
    assert actuator.limit_reads({"a": job}, most, "8:0") == new
    for error in (JobGoneError("gone"), OSError(5, "no")):
        broken: Any = SimpleNamespace(share=FakeShare(now, error))
        assert actuator.limit_reads({"a": broken}, {"a": 1e9}, "8:0") == {}


class FakeJob:
    """A job that notes the order of what is done to it."""

    def __init__(
        self, key: str, log: list[str], units: int | None, error: Exception | None = None
    ) -> None:
        self.key, self.log, self.units, self.error = key, log, units, error
        self.share_units, self.agreed, self.curve = 2, False, None
        self.share = SimpleNamespace(
            own_cores=frozenset({0, 1}), pinned=None, restore=lambda: None, held_cores=None
        )
        self.share.pin = lambda cores: log.append(f"{key} pin {len(cores)}")

    @property
    def bounds(self) -> tuple[int | None]:
        """What it has."""
        return (self.units,)

    def ask(self, workers: int | None) -> None:
        """Fail, where it is to."""
        if self.error:
            raise self.error
        self.log.append(f"{self.key} workers {workers}")

    def acted_on(self, *, changed: bool) -> None:
        """Note it."""
        self.log.append(f"{self.key} {'changed' if changed else 'same'}")

    def restore(self) -> bool:
        """Note it."""
        self.log.append(f"{self.key} restored")
        return True

    def utilisation(self, cores: float, workers: int | None) -> float:
        """All of it."""
        del cores, workers
        return 1.0


def test_shrinking_jobs_come_before_growing_ones() -> None:
    """A core is free before another job gets it; a job that has gone, or is hostile, is left."""
    log: list[str] = []
    machine = Machine(real_cores=8, slurm_cpus=8, grain_cores=1.0)
    jobs: dict[str, Any] = {
        "a": FakeJob("a", log, 1),
        "b": FakeJob("b", log, 3),
        "c": FakeJob("c", log, 2, JobGoneError("gone")),
        "d": FakeJob("d", log, 2, UntrustedJobDirError("a link")),
    }
    for number, job in enumerate(jobs.values()):
        job.share.own_cores = frozenset({2 * number, 2 * number + 1})
    points = {
        key: OperatingPoint(units=units, workers=4, samples_per_s=1.0)
        for key, units in (("a", 3), ("b", 1), ("c", 2), ("d", 2))
    }
    assert actuator.apply(jobs, points, machine, 8) == {"d": "a link"}
    assert [line for line in log if "pin" in line] == ["b pin 1", "c pin 2", "d pin 2", "a pin 3"]
    assert {"c restored", "d restored", "a changed", "b changed"} <= set(log)
    assert "a restored" not in log


def test_a_job_alone_at_its_share_is_not_limited() -> None:
    """One that is alone with less, or not alone, is."""
    log: list[str] = []
    one: Any = {"a": FakeJob("a", log, 2)}
    share, less = ({"a": OperatingPoint(units=n, workers=1, samples_per_s=1.0)} for n in (2, 1))
    assert actuator._alone_at_share(one, share)
    assert not actuator._alone_at_share(one, less)
    two: Any = {**one, "b": FakeJob("b", log, 2)}
    assert not actuator._alone_at_share(two, {**share, "b": share["a"]})
    assert not actuator.limited_without_need(one)
    one["a"].share.held_cores = 2.0
    assert actuator.limited_without_need(one)
    one["a"].units = 1
    assert not actuator.limited_without_need(one)
    two["a"].units, two["b"].share.held_cores = 2, 2.0
    assert not actuator.limited_without_need(two)


def test_a_row_of_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    """In order of jobs; figures that are not known are null, rates of 0 as well."""
    job = controlled(Clock(monkeypatch))
    job.share.read_bytes_per_s = 3 * 2.0**20
    job.units, job.measured = 2, 50.0
    points = {"b": OperatingPoint(units=3, workers=4, samples_per_s=0.0)}
    wanted: Any = SimpleNamespace(points=points, reason={"b": "because"})
    first, second = rows({"b": job, "a": job}, wanted)
    assert (first["job"], first["wanted_units"], first["reason"]) == ("a", None, "")
    assert (second["wanted_units"], second["wanted_workers"]) == (3, 4)
    assert (second["predicted_samples_per_s"], second["measured_samples_per_s"]) == (None, 50.0)
    assert (second["read_mib_per_s"], second["units"], second["reason"]) == (3.0, 2, "because")
    assert rows({"b": job}, None)[0]["reason"] == ""
