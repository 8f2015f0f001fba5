"""Quotas in control groups that are plain files: versions 1 and 2, groups of ours and of Slurm."""

from pathlib import Path

import pytest

from slurm_ext.control.allocator.cgroup import group
from slurm_ext.control.allocator.cgroup.job_location import JobGoneError, JobLocation
from slurm_ext.control.allocator.cgroup.quota import Quota
from tests.control.allocator.cgroup.plain_groups import OWN, PlaceOf12, slurms_v1, texts
from tests.control.cgroup_trees import version_2


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
