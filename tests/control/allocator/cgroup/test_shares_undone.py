"""A share of a job: what is refused, what is noted before it, how it is undone."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_ext.control.allocator.cgroup.cpu import Share, undo
from slurm_ext.control.allocator.cgroup.job_location import JobGoneError, JobLocation
from tests.control.allocator.cgroup.plain_groups import OWN
from tests.control.cgroup_trees import version_2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda share: share.limit(1.0), "no CPU quota can be set for this job"),
        (lambda share: share.weigh(1.0, 1.0, 1.0), "no CPU weight can be set for this job"),
        (lambda share: share.read_at_most(1.0, "8:0"), "no reads can be limited for this job"),
    ],
)
def test_a_share_that_cannot_be_set_is_refused(
    place: JobLocation, change: Callable[[Share], None], message: str
) -> None:
    """Without such a control group the job is as it was, and nothing is noted."""
    notes: list[int] = []
    share = Share(place, note=lambda: notes.append(1))
    with pytest.raises(JobGoneError, match=f"^{message}$"):
        change(share)
    assert (share.kept, share.held_cores, notes) == ({}, None, [])


def test_a_weight_needs_a_quota_and_a_quota_no_weight(place: JobLocation) -> None:
    """A job with a weight alone could not be held to what is left for it."""
    job = version_2(Path(place.mount), place, "0-3")
    share = Share(place)
    assert (share.lends, share.mechanisms) == (False, ("quota", "cpuset", "affinity"))
    with pytest.raises(JobGoneError, match="no CPU weight"):
        share.weigh(1.0, 1.0, 1.0)
    (job / "cpu.weight").write_text("100")
    (job / "cpu.max").unlink()
    (job / "cpuset.cpus").unlink()
    share = Share(place)
    assert (share.lends, share.mechanisms) == (True, ("affinity",))
    with pytest.raises(JobGoneError, match="no CPU weight"):
        share.weigh(1.0, 1.0, 1.0)


def test_what_undoes_a_change_is_noted_before_it(place: JobLocation) -> None:
    """A process killed in between leaves a note of everything that it may have changed."""
    job = version_2(Path(place.mount), place, "0-3")
    (job / "cpu.weight").write_text("100")
    (job / "io.max").write_text("")
    notes: list[tuple[list[str], str, str, str]] = []

    def note() -> None:
        now = [(job / name).read_text().strip() for name in ("cpu.max", "cpu.weight", "io.max")]
        notes.append((sorted(share.kept), now[0], now[1], now[2]))

    share = Share(place, note=note)
    share.limit(0.5, first=True)
    assert (share.cores, share.first, share.held_cores, share.weight) == (0.5, True, 0.5, None)
    share.weigh(1.0, 2.0, 1.5, latency_weight=3.0)
    assert (share.weight, share.held_cores) == ((3.0, 2.0), 1.5)
    share.read_at_most(5.0, "8:0")
    assert notes == [
        (["quota"], "max 100000", "100", ""),
        (["quota", "weight"], "10000 20000", "100", ""),
        (["quota", "reads", "weight"], "30000 20000", "150", ""),
    ]
    share.limit(1.0)
    assert share.first is False
    assert share.restore() is True
    assert (share.kept, share.held_cores) == ({}, None)
    assert [(job / n).read_text() for n in ("cpu.max", "cpu.weight", "io.max")] == [
        "max 100000",
        "100",
        "8:0 rbps=max",
    ]


def test_a_pinned_share(place: JobLocation) -> None:
    """Cores go to the steps' cpusets; the job counts as held to their number."""
    job = version_2(Path(place.mount), place, "0-3")
    kept: list[dict[str, object]] = []
    share = Share(
        place,
        {"affinity": {"before": [0, 1, 2, 3], "ours": []}},
        note=lambda: kept.append(share.kept),
    )
    assert share.own_cores == frozenset({0, 1, 2, 3})
    share.limit(3.5)
    share.pin(frozenset({1, 2}))
    assert share.held_cores == 2.0
    assert (job / "step_batch/cpuset.cpus").read_text() == "1-2"
    assert sorted(kept[-1]) == ["affinity", "cpuset", "quota"]
    assert kept[-1]["affinity"] == {"before": [0, 1, 2, 3], "ours": [[1, 2]]}
    later = job / "step_1"
    later.mkdir()
    (later / "cpuset.cpus").write_text("0-3")
    share.keep_up()
    assert (later / "cpuset.cpus").read_text() == "1-2"
    undo(place, kept[-1])
    assert (job / "step_batch/cpuset.cpus").read_text() == "0-3"
    assert (job / "cpu.max").read_text() == "max 100000"
    assert share.restore() is True
    assert share.pinned is None


@pytest.mark.parametrize("name", ["quota", "weight", "reads"])
def test_an_undo_gives_dying_processes_two_seconds(
    ungrouped: JobLocation, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """40 attempts, 0.05 s apart, for a group of ours that cannot go before its processes."""
    controller = "blkio/work:2" if name == "reads" else "cpu/work"
    own = Path(ungrouped.mount, controller, OWN)
    own.mkdir()
    (own / "cgroup.procs").write_text("12")
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    kept = {name: {"folder": str(own), "home": str(own.parent), "own": True}}
    undo(ungrouped, kept)
    assert waits == [0.05] * 40
    share = Share(ungrouped, kept)
    assert share.restore() is True  # nothing was set by this one
    (own / "cgroup.procs").unlink()
    undo(ungrouped, kept)
    assert not own.exists()
    assert len(waits) == 40


def test_a_share_keeps_up_with_new_processes(ungrouped: JobLocation) -> None:
    """Those that came since join every group of ours; a share that sets nothing makes none."""
    share = Share(ungrouped)
    share.keep_up()
    share.weigh(1.0, 1.0, 2.0)
    share.read_at_most(9.0, "8:0")
    groups = [Path(ungrouped.mount, where, OWN) for where in ("cpu/work", "blkio/work:2")]
    for own in groups:
        (own / "cgroup.procs").write_text("11")
    share.keep_up()
    assert [(own / "cgroup.procs").read_text() for own in groups] == ["12", "12"]
    assert share.restore() is False  # the groups' files cannot go here
    assert sorted(share.kept) == ["quota", "reads", "weight"]
