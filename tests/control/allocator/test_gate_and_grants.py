"""The gate file, decision log, undo log and grants of the allocator, at their bounds."""

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slurm_ext.control.allocator import gate
from slurm_ext.control.allocator.actuator import _grants, _hold, _pins
from slurm_ext.control.allocator.cgroup.job_location import JobGoneError, UntrustedJobDirError
from slurm_ext.control.allocator.decision_log import append, decision_json
from slurm_ext.control.allocator.node import Machine
from slurm_ext.policy.allocator.operating_points import OperatingPoint


@pytest.mark.parametrize("workers", [1, 2, 1024])
def test_the_gate_holds_a_number_of_workers(tmp_path: Path, workers: int) -> None:
    """One line that everybody may read, whatever the umask; nothing else is left in the folder."""
    mask = os.umask(0o077)
    try:
        gate.set_gate(str(tmp_path), workers, uid=os.geteuid())
    finally:
        os.umask(mask)
    (path,) = tmp_path.iterdir()
    assert (path.name, path.read_text()) == ("workers", f"{workers}\n")
    assert path.stat().st_mode & 0o777 == 0o644
    gate.remove_gate(str(tmp_path))
    gate.remove_gate(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("workers", [0, -1, 1025])
def test_a_gate_has_1_to_1024_workers(tmp_path: Path, workers: int) -> None:
    """None at all would stop the training."""
    with pytest.raises(ValueError, match=f"^workers = {workers}: expected 1 to 1024$"):
        gate.set_gate(str(tmp_path), workers)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_gone_or_not_a_folder(tmp_path: Path) -> None:
    """The first is the job's end, the second its user's doing; both are named."""
    with pytest.raises(JobGoneError, match=f"^{tmp_path}/none is gone$"):
        gate.set_gate(f"{tmp_path}/none", 1)
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(UntrustedJobDirError, match=f"^{tmp_path}/link: Not a directory$"):
        gate.remove_gate(f"{tmp_path}/link")


def test_a_folder_of_another_user(tmp_path: Path) -> None:
    """Both uids are named; without an expected one, the owner does not matter."""
    owner = tmp_path.stat().st_uid
    message = f"^{tmp_path} belongs to uid {owner}, not {owner + 1}$"
    with pytest.raises(UntrustedJobDirError, match=message):
        gate.set_gate(str(tmp_path), 1, uid=owner + 1)
    gate.set_gate(str(tmp_path), 1)


def test_a_folder_in_the_gates_place(tmp_path: Path) -> None:
    """Neither replaced nor removed, the reason is said, and no temporary file is left."""
    (tmp_path / "workers").mkdir()
    message = r"^workers cannot be replaced: Is a directory$"
    with pytest.raises(UntrustedJobDirError, match=message):
        gate.set_gate(str(tmp_path), 1)
    with pytest.raises(UntrustedJobDirError, match=r"^workers cannot be removed: Is a directory$"):
        gate.remove_gate(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["workers"]


def test_a_line_of_the_decision_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time in ms, whether it was applied, and what the caller adds."""
    monkeypatch.setattr(time, "time", lambda: 12.34567)
    append(tmp_path / "log.jsonl", acted=False, device="8:0")
    append(tmp_path / "log.jsonl", acted=True)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert lines == [
        {"t_s": 12.346, "acted": False, "device": "8:0"},
        {"t_s": 12.346, "acted": True},
    ]


def test_a_decision_in_the_log() -> None:
    """Its reason, gain, and each job's operating point with the reason for it."""
    point = OperatingPoint(units=2, workers=3, samples_per_s=4.0, io_bytes_per_s=5.0)
    allocation = SimpleNamespace(points={"a": point}, reason={"a": "because"})
    decision: Any = SimpleNamespace(reason="drift", gain=0.25, allocation=allocation)
    offer = {"units": 2, "workers": 3, "samples_per_s": 4.0, "io_bytes_per_s": 5.0}
    body = decision_json(decision)
    assert {**body, "offers": None} == {
        "reason": "drift",
        "gain": 0.25,
        "offers": None,
        "reasons": {"a": "because"},
    }
    assert offer.items() <= body["offers"]["a"].items()


def job(used: float, share_units: int = 2, *, agreed: bool = False, curve: object = "known") -> Any:
    """A job that computes with a part of its cores."""
    return SimpleNamespace(
        share_units=share_units, agreed=agreed, curve=curve, utilisation=lambda *_: used
    )


def point(units: int) -> OperatingPoint:
    """So many units."""
    return OperatingPoint(units=units, workers=1, samples_per_s=1.0)


def test_a_grant_in_every_figure() -> None:
    """Own cores, the mean of all, what others leave, and whether it is within its share."""
    machine = Machine(real_cores=4, slurm_cpus=4, grain_cores=0.5, lends=True)
    jobs = {"a": job(1.0), "b": job(1.0, 4), "c": job(1.0, 1, agreed=True)}
    grants = _grants(jobs, {"a": point(3), "b": point(2), "c": point(1)}, machine, 8)
    figures = {
        key: (grant.cores, grant.most_cores, grant.latency_weight, grant.within)
        for key, grant in grants.items()
    }
    assert figures == {
        "a": (1.5, 1.5, 1.0, False),
        "b": (2.0, 2.0, 1.0, True),  # never below its share
        "c": (0.5, 0.5, 1.0, True),
    }
    assert {grant.mean_cores for grant in grants.values()} == {4.0 / 3}
    assert all(grant.lends for grant in grants.values())


def test_what_others_leave_is_lent() -> None:
    """Of 4 cores one job uses half of its own: the other may have 3; without lending it may not."""
    jobs = {"a": job(1.0, 4), "b": job(0.5, 4, agreed=True)}
    points = {"a": point(4), "b": point(4)}
    for lends, most in ((True, 3.0), (False, 2.0)):
        machine = Machine(real_cores=4, slurm_cpus=4, grain_cores=0.5, lends=lends)
        grants = _grants(jobs, points, machine, 8)
        assert (grants["a"].most_cores, grants["b"].most_cores) == (most, 2.0)
        assert grants["a"].lends is lends


class NotedShare:
    """A share that notes what is set."""

    def __init__(self, *, lends: bool = True) -> None:
        self.lends = lends
        self.calls: list[tuple[Any, ...]] = []
        self.pinned: frozenset[int] | None = None
        self.weight: tuple[float, float] | None = None
        self.held_cores: float | None = None
        self.first = False

    def pin(self, cores: frozenset[int]) -> None:
        """As Share."""
        self.calls.append(("pin", cores))
        self.pinned = cores

    def weigh(self, cores: float, mean: float, most: float, *, latency_weight: float) -> None:
        """As Share."""
        self.calls.append(("weigh", cores, mean, most, latency_weight))
        self.weight, self.held_cores = (cores * latency_weight, mean), most

    def limit(self, cores: float, *, first: bool) -> None:
        """As Share."""
        self.calls.append(("limit", cores, first))
        self.held_cores, self.first = cores, first


def test_a_grant_is_applied_once() -> None:
    """By weight where the node lends and the job can have one, else by time; then it stays."""
    lending = Machine(real_cores=4, slurm_cpus=4, grain_cores=1.0, lends=True)
    plain = Machine(real_cores=4, slurm_cpus=4, grain_cores=1.0)
    jobs = {"a": job(1.0), "b": job(1.0)}
    for machine, lends, expected in (
        (lending, True, ("weigh", 2.0, 2.0, 2.0, 1.0)),
        (lending, False, ("limit", 2.0, True)),
        (plain, True, ("limit", 2.0, True)),
    ):
        share = NotedShare(lends=lends)
        grant = _grants(jobs, {"a": point(2), "b": point(2)}, machine, 4)["a"]
        holder: Any = SimpleNamespace(share=share)
        _hold(holder, grant)
        _hold(holder, grant)
        assert share.calls == [expected]
    share = NotedShare()
    holder = SimpleNamespace(share=share)
    for cores in ({0}, {0}, {1}):
        _hold(holder, frozenset(cores))
    assert share.calls == [("pin", frozenset({0})), ("pin", frozenset({1}))]


def test_time_is_set_again_where_it_or_its_order_differs() -> None:
    """More cores, or no longer within its share."""
    machine = Machine(real_cores=8, slurm_cpus=8, grain_cores=1.0)
    share = NotedShare()
    holder: Any = SimpleNamespace(share=share)
    for units, share_units in ((2, 2), (3, 3), (3, 2), (3, 2)):
        grant = _grants({"a": job(1.0, share_units)}, {"a": point(units)}, machine, 8)["a"]
        _hold(holder, grant)
    assert share.calls == [("limit", 2.0, True), ("limit", 3.0, True), ("limit", 3.0, False)]


def pinnable(own: set[int] | None, now: set[int] | None = None) -> Any:
    """A job that Slurm put on cores; None: it has ended."""

    class Pinnable:
        pinned = None if now is None else frozenset(now)

        @property
        def own_cores(self) -> frozenset[int]:
            if own is None:
                raise JobGoneError("gone")
            return frozenset(own)

    return SimpleNamespace(share=Pinnable())


def test_jobs_on_cores_of_their_own_stay_near_them() -> None:
    """A job that ended has no cores; one that Slurm bound keeps to its own first."""
    jobs = {"a": pinnable({0, 1}), "b": pinnable({2, 3}), "gone": pinnable(None)}
    points = {"a": point(1), "b": point(3), "gone": point(1)}
    assert _pins(jobs, points) == {"a": frozenset({0}), "b": frozenset({1, 2, 3})}


def test_jobs_that_slurm_did_not_bind_have_no_cores_of_their_own() -> None:
    """Each may run on all: those that it has from us stay."""
    everywhere = {0, 1, 2, 3}
    jobs = {"a": pinnable(everywhere, {3}), "b": pinnable(everywhere, {0, 1})}
    pins = _pins(jobs, {"a": point(2), "b": point(2)})
    assert pins == {"a": frozenset({2, 3}), "b": frozenset({0, 1})}
