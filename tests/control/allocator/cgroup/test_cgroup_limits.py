"""Quotas, weights and reads at their bounds, in control groups that are plain files."""

import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_ext.control.allocator.cgroup import group
from slurm_ext.control.allocator.cgroup.cpu import Share, undo
from slurm_ext.control.allocator.cgroup.job_location import JobGoneError, JobLocation
from slurm_ext.control.allocator.cgroup.quota import Quota, Weight
from slurm_ext.control.allocator.cgroup.reads import V1, Reads, disk_of
from tests.control.cgroup_trees import version_2

OWN = "dlqueue_n1_7"


class PlaceOf12(JobLocation):
    """A job of one process."""

    def pids(self) -> set[int]:
        """The processes."""
        return {12}


@pytest.fixture
def place(tmp_path: Path) -> JobLocation:
    """A job of a machine that is a folder."""
    (tmp_path / "cgroup").mkdir()
    return JobLocation(job_id=7, uid=1000, node="n1", mount=str(tmp_path / "cgroup"))


@pytest.fixture
def ungrouped(tmp_path: Path) -> JobLocation:
    """A job that Slurm made no group for, in /work of every version 1 hierarchy."""
    mount, process = tmp_path / "cgroup", tmp_path / "proc/12"
    process.mkdir(parents=True)
    (process / "cgroup").write_text("9:cpuset:/no\n4:cpuacct,cpu:/work\n3:blkio:/work:2\n0::/no\n")
    for folder in ("cpu/work", "blkio/work:2"):
        (mount / folder).mkdir(parents=True)
    for name in ("cpu/cpu.cfs_period_us", "cpu/cpu.shares", f"blkio/{V1}"):
        (mount / name).write_text("")
    return PlaceOf12(job_id=7, uid=1000, node="n1", mount=str(mount), proc=str(tmp_path / "proc"))


def texts(folder: Path) -> dict[str, str]:
    """Files of a folder."""
    return {path.name: path.read_text() for path in folder.iterdir()}


def slurms_v1(place: JobLocation, controller: str, **files: str) -> Path:
    """A version 1 group that Slurm made for the job."""
    job = Path(place.mount, controller, "slurm_n1/uid_1000/job_7")
    job.mkdir(parents=True)
    for name, text in files.items():
        (job / f"cpu.{name}").write_text(text)
    return job


@pytest.mark.parametrize(
    ("cores", "expected"),
    [
        (0.01, "1000 20000"),
        (0.05, "1000 20000"),
        (0.0501, "1002 20000"),
        (1.0, "20000 20000"),
        (1.50004, "30001 20000"),
    ],
)
def test_a_quota_of_version_2_is_cores_in_a_period(
    place: JobLocation, cores: float, expected: str
) -> None:
    """Microseconds of 20 ms, rounded, and at least the millisecond that the kernel asks for."""
    job = version_2(Path(place.mount), place, "0-3")
    quota = Quota(place)
    assert quota.usable
    quota.cap(cores)
    assert (job / "cpu.max").read_text() == expected


@pytest.mark.parametrize("controller", ["cpu", "cpuacct"])
def test_a_quota_in_slurms_version_1_group_keeps_its_period(
    place: JobLocation, controller: str
) -> None:
    """The period of Slurm's group stays; the quota counts in it, and comes back as it was."""
    job = slurms_v1(place, controller, cfs_quota_us="-1\n", cfs_period_us="100000\n")
    quota = Quota(place)
    assert quota.usable
    assert quota.kept == {"folder": str(job), "before": "-1", "own": False}
    for cores, expected in ((0.5, "50000"), (0.01, "1000"), (0.0101, "1010"), (0.001, "1000")):
        quota.give(cores, first=True)
        after = {"cpu.cfs_quota_us": expected, "cpu.cfs_period_us": "100000\n"}
        assert texts(job) == after
    assert quota.restore() is True
    assert (job / "cpu.cfs_quota_us").read_text() == "-1"


@pytest.mark.parametrize(("first", "shares"), [(True, "10240"), (False, "1024")])
def test_a_quota_in_a_group_of_ours(ungrouped: JobLocation, first: bool, shares: str) -> None:
    """It lies below the job's group, with its processes, a period, a quota, a burst and shares."""
    quota = Quota(ungrouped)
    assert quota.usable
    home = Path(ungrouped.mount, "cpu/work")
    assert quota.kept == {"folder": str(home / OWN), "home": str(home), "own": True}
    quota.give(1.5, first=first)
    assert texts(home / OWN) == {
        "cgroup.procs": "12",
        "cpu.cfs_period_us": "20000",
        "cpu.cfs_quota_us": "30000",
        "cpu.cfs_burst_us": "30000",
        "cpu.shares": shares,
    }


def test_a_burst_never_exceeds_the_quota(
    ungrouped: JobLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The burst is 0 while the quota changes: the kernel refuses a quota below it."""
    written: list[tuple[str, str]] = []
    write_text = Path.write_text

    def note(path: Path, text: str) -> int:
        written.append((path.name, text))
        return write_text(path, text)

    quota = Quota(ungrouped)
    assert quota.usable
    monkeypatch.setattr(Path, "write_text", note)
    quota.cap(0.5)
    assert [row for row in written if row[0] != "cgroup.procs"] == [
        ("cpu.cfs_period_us", "20000"),
        ("cpu.cfs_burst_us", "0"),
        ("cpu.cfs_quota_us", "10000"),
        ("cpu.cfs_burst_us", "10000"),
    ]


def test_a_usual_job_is_not_first(ungrouped: JobLocation) -> None:
    """A quota without a word about it has the usual shares; a cap leaves the shares alone."""
    quota = Quota(ungrouped)
    assert quota.usable
    quota.cap(1.0)
    own = Path(ungrouped.mount, "cpu/work", OWN)
    assert "cpu.shares" not in texts(own)
    quota.give(1.0)
    assert (own / "cpu.shares").read_text() == "1024"


def test_a_group_of_ours_is_not_made_inside_itself(ungrouped: JobLocation) -> None:
    """A job that another process of ours has moved has its home above that group."""
    text = f"4:cpu:/work/{OWN}/inner\n"
    Path(ungrouped.proc, "12/cgroup").write_text(text)
    quota = Quota(ungrouped)
    assert quota.usable
    assert quota.kept["home"] == str(Path(ungrouped.mount, "cpu/work"))


@pytest.mark.parametrize("missing", ["cpu/cpu.cfs_period_us", "../proc/12/cgroup"])
def test_no_group_without_a_controller_or_a_process(ungrouped: JobLocation, missing: str) -> None:
    """Where the kernel has no quota, or the job no process, none can be set."""
    Path(ungrouped.mount, missing).unlink()
    assert not Quota(ungrouped).usable


def test_a_process_that_has_just_ended_does_not_hide_the_others(
    ungrouped: JobLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job's group is read from the first process that is still there."""
    monkeypatch.setattr(PlaceOf12, "pids", lambda _: {11, 12})
    quota = Quota(ungrouped)
    assert quota.usable
    assert quota.kept["home"] == str(Path(ungrouped.mount, "cpu/work"))


def test_only_processes_from_elsewhere_are_moved(
    ungrouped: JobLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those in our group already stay where they are, and nothing is moved before it is made."""
    quota = Quota(ungrouped)
    assert quota.usable
    quota.join()
    own = Path(ungrouped.mount, "cpu/work", OWN)
    assert not own.exists()
    own.mkdir()
    (own / "cgroup.procs").write_text("12\n13\n")
    monkeypatch.setattr(PlaceOf12, "pids", lambda _: {11, 12})
    quota.join()
    assert (own / "cgroup.procs").read_text() == "11"
    monkeypatch.setattr(PlaceOf12, "pids", lambda _: {13})
    (own / "cgroup.procs").write_text("13\n")
    quota.join()
    assert (own / "cgroup.procs").read_text() == "13\n"


@pytest.mark.parametrize(("refusals", "gone"), [(0, True), (4, True), (5, False)])
def test_a_group_of_ours_goes_within_five_attempts(
    ungrouped: JobLocation, monkeypatch: pytest.MonkeyPatch, refusals: int, gone: bool
) -> None:
    """Its processes go back to the job's group each time; later, the caller asks again."""
    quota = Quota(ungrouped)
    assert quota.usable
    quota.give(1.0)
    left = [refusals]

    def rmdir(_: Path) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise OSError

    monkeypatch.setattr(Path, "rmdir", rmdir)
    assert quota.restore() is gone
    assert Path(ungrouped.mount, "cpu/work/cgroup.procs").read_text() == "12"


def test_a_group_that_is_gone_is_left(place: JobLocation, tmp_path: Path) -> None:
    """Nothing is to be undone in a folder that is not there."""
    kept = {"folder": str(tmp_path / "none"), "before": "max", "own": False}
    assert group.leave(kept, "cpu.max") is True
    assert group.leave({**kept, "own": True, "home": str(tmp_path)}, "cpu.max") is True
    assert Quota(place, kept).restore() is True


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A folder that is gone is the job's end; a refusal shows the text, the reason, the folder."""
    with pytest.raises(JobGoneError, match=f"^{tmp_path}/none is gone$"):
        group.write(tmp_path / "none", "cpu.max", "1")
    (tmp_path / "cpu.max").mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        group.write(tmp_path, "cpu.max", "1 2")
    assert str(caught.value) == f"[Errno 21] '1 2' refused: Is a directory: '{tmp_path}'"


@pytest.mark.parametrize(
    ("cores", "mean_cores", "expected"),
    [
        (2.0, 2.0, "100"),
        (3.0, 2.0, "150"),
        (0.001, 2.0, "1"),
        (0.0, 2.0, "1"),
        (0.05, 2.0, "2"),
        (200.0, 2.0, "10000"),
        (201.0, 2.0, "10000"),
        (199.98, 2.0, "9999"),
    ],
)
def test_a_weight_of_version_2_stays_in_the_kernels_range(
    place: JobLocation, cores: float, mean_cores: float, expected: str
) -> None:
    """100 at the mean, from 1 to 10000."""
    job = version_2(Path(place.mount), place, "0-3")
    (job / "cpu.weight").write_text("77\n")
    weight = Weight(place)
    assert weight.usable
    weight.give(cores, mean_cores)
    assert (job / "cpu.weight").read_text() == expected
    assert weight.restore() is True
    assert (job / "cpu.weight").read_text() == "77"


@pytest.mark.parametrize(
    ("cores", "expected"),
    [(1.0, "1024"), (0.5, "512"), (0.001, "2"), (0.003, "3"), (256.0, "262144"), (300.0, "262144")],
)
def test_a_weight_in_a_group_of_ours(ungrouped: JobLocation, cores: float, expected: str) -> None:
    """1024 for each core, from 2 to 262144, whatever the mean of the others is."""
    weight = Weight(ungrouped)
    assert weight.usable
    weight.give(cores, 8.0)
    own = Path(ungrouped.mount, "cpu/work", OWN)
    assert texts(own) == {"cgroup.procs": "12", "cpu.shares": expected}


@pytest.mark.parametrize("controller", ["cpu", "cpuacct"])
def test_no_weight_where_slurm_has_groups_below_users(
    ungrouped: JobLocation, controller: str
) -> None:
    """Shares below a user's group would hold against that user's other jobs only."""
    assert Weight(ungrouped).usable
    slurms_v1(ungrouped, controller, shares="1024")
    assert not Weight(ungrouped).usable


def test_reads_in_a_group_of_ours(ungrouped: JobLocation) -> None:
    """The device and bytes a second, rounded, never 0, which the kernel takes as no limit."""
    reads = Reads(ungrouped)
    assert reads.usable
    reads.plan("8:0")
    own = Path(ungrouped.mount, "blkio/work:2", OWN)
    assert reads.kept["folder"] == str(own)
    for rate, expected in ((0.2, "8:0 1"), (1.0, "8:0 1"), (2.4, "8:0 2"), (3e9, "8:0 3000000000")):
        reads.give(rate)
        assert texts(own) == {"cgroup.procs": "12", V1: expected}
    for path in own.iterdir():
        path.unlink()
    assert reads.restore() is True
    assert not own.exists()


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("", "8:0 rbps=max"),
        ("8:0 rbps=5 wbps=7", "8:0 rbps=5"),
        ("8:0 wbps=7", "8:0 rbps=max"),
        ("8:01 rbps=5\n9:0 rbps=6", "8:0 rbps=max"),
        ("9:0 rbps=6\n8:0 odd wbps=7 rbps=5", "8:0 rbps=5"),
    ],
)
def test_reads_of_version_2_come_back(place: JobLocation, before: str, expected: str) -> None:
    """The limit of the device alone, as it was; without one there is none again."""
    job = version_2(Path(place.mount), place, "0-3")
    (job / "io.max").write_text(before)
    reads = Reads(place)
    assert reads.usable
    reads.plan("8:0")
    reads.give(0.4)
    assert (job / "io.max").read_text() == "8:0 rbps=1"
    assert reads.restore() is True
    assert (job / "io.max").read_text() == expected


def test_a_storage_path_without_a_disk_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names the setting, the path and the reason; no path at all is silent."""
    caplog.set_level(logging.WARNING, "dlqueue.control")
    assert disk_of("") is None
    assert disk_of(f"{tmp_path}/none") is None
    assert disk_of("/proc") is None
    assert caplog.messages == [
        f"control.storage_path = {tmp_path}/none: No such file or directory; no reads are limited",
        "control.storage_path = /proc is on no disk of this node: not limited",
    ]


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
