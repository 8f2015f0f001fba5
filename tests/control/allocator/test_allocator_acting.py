"""The allocator acts: order of changes, limits of reads, and a row of the status."""

from types import SimpleNamespace
from typing import Any

import pytest

from slurm_ext.control.allocator import actuator
from slurm_ext.control.allocator.cgroup.job_location import (
    JobGoneError,
    UntrustedJobDirError,
)
from slurm_ext.control.allocator.node import Machine
from slurm_ext.control.allocator.status import rows
from slurm_ext.policy.allocator.operating_points import OperatingPoint
from tests.control.allocator.test_node_units import Clock
from tests.control.allocator.test_windows_and_bounds import controlled


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


@pytest.mark.parametrize(
    ("grain", "idle", "cores", "units"),
    [
        (1.0, 0, (2, 2), 4),
        (1.0, 4, (2, 2), 4),  # Slurm keeps them on their own cores
        (1.0, 4, (8, 8), 8),  # it does not
        (0.25, 4, (2, 2), 20),
    ],
)
def test_idle_cpus_are_divided_where_jobs_may_run_on_them(
    grain: float, idle: int, cores: tuple[int, int], units: int
) -> None:
    """Whole cores are pinned: more of them than there are cannot be given."""
    first = frozenset(range(cores[0]))
    second = first if cores[0] == 8 else frozenset({2, 3})
    jobs: Any = {
        str(number): SimpleNamespace(share=SimpleNamespace(own_cores=own))
        for number, own in enumerate((first, second))
    }
    machine = Machine(real_cores=8, slurm_cpus=8, grain_cores=grain)
    assert actuator.units_there(jobs, machine, 4, idle) == units
