"""Cores of a job by cpusets and threads: which groups and threads change, in which order."""

import os
from pathlib import Path

import pytest

from slurm_ext.control.allocator.cgroup import affinity as affinity_module
from slurm_ext.control.allocator.cgroup import cpuset as cpuset_module
from slurm_ext.control.allocator.cgroup.affinity import Affinity
from slurm_ext.control.allocator.cgroup.cpuset import Cpuset
from slurm_ext.control.allocator.cgroup.job_location import JobGoneError, JobLocation
from tests.control.cgroup_trees import version_1, version_2


def cores(*numbers: int) -> frozenset[int]:
    """A set of cores."""
    return frozenset(numbers)


@pytest.fixture
def place(tmp_path: Path) -> JobLocation:
    """A job of a machine that is a folder."""
    return JobLocation(job_id=7, uid=1000, node="n1", mount=str(tmp_path / "cgroup"))


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Cpusets as they are written: folder and cores."""
    rows: list[tuple[str, str]] = []
    write_text = Path.write_text

    def note(path: Path, text: str) -> int:
        rows.append((path.parent.name, text))
        return write_text(path, text)

    monkeypatch.setattr(Path, "write_text", note)
    return rows


def test_a_cpuset_grows_from_the_top_and_shrinks_from_the_bottom(
    place: JobLocation, written: list[tuple[str, str]]
) -> None:
    """The kernel refuses a group with cores that its parent has not, at any moment."""
    job = version_1(Path(place.mount), place, "0-1")
    task = job / "step_batch/task_0"
    task.mkdir()
    (task / "cpuset.cpus").write_text("0\n")
    cpuset = Cpuset(place)
    cpuset.plan(cores(2))
    written.clear()
    cpuset.give(cores(2))
    grown = [("uid_1000", "0-2"), ("job_7", "0-2"), ("step_batch", "0-2"), ("task_0", "0,2")]
    assert written == [*grown, ("task_0", "2"), ("step_batch", "2")]
    written.clear()
    cpuset.restore()
    up = [("uid_1000", "0-2"), ("job_7", "0-2"), ("step_batch", "0-2"), ("task_0", "0,2")]
    down = [("task_0", "0"), ("step_batch", "0-1"), ("job_7", "0-1"), ("uid_1000", "0-1")]
    assert written == up + down


def test_a_users_group_is_noted_where_it_has_cores(place: JobLocation) -> None:
    """Version 2 has none above the job; a group without cores of its own follows its parent."""
    job = version_2(Path(place.mount), place, "0-3")
    cpuset = Cpuset(place)
    step = str(job / "step_batch")
    cpuset.plan(cores(1))
    assert cpuset.kept == {str(job): ["0-3"] * 3, step: ["0-3", "0-3", "0-3", "1"]}
    (job / "step_batch/cpuset.cpus").write_text("1")
    cpuset.plan(cores(5))
    assert cpuset.kept == {str(job): ["0-3", "0-3", "0-3,5"], step: ["0-3", "1", "1,5", "5"]}
    cpuset.give(cores(5))
    assert (job / "step_batch/user/cpuset.cpus").read_text() == "\n"
    assert Cpuset(place, cpuset.kept).cores == cores(0, 1, 2, 3)


def test_a_folder_that_is_no_users_is_not_changed(place: JobLocation) -> None:
    """Only `uid_...` above a job is Slurm's for the user alone."""
    job = version_1(Path(place.mount), place, "0-3")
    (job.parent / "cpuset.cpus").write_text("\n")
    cpuset = Cpuset(place)
    cpuset.plan(cores(1))
    assert sorted(cpuset.kept) == [str(job), str(job / "step_batch")]
    assert cpuset_module._above(job / "step_batch/task") == []


def test_a_job_without_cores_of_its_own_is_not_constrained(place: JobLocation) -> None:
    """There is nothing to note, to give or to put back."""
    version_2(Path(place.mount), place, "")
    cpuset = Cpuset(place)
    cpuset.plan(cores(1))
    assert (cpuset.cores, cpuset.kept) == (None, {})
    with pytest.raises(JobGoneError, match=r"^the job's cpuset is gone$"):
        cpuset.give(cores(1))
    cpuset.restore()


def test_a_group_that_goes_meanwhile_is_the_jobs_end(place: JobLocation) -> None:
    """Its folder is named."""
    job = version_2(Path(place.mount), place, "0-3")
    cpuset = Cpuset(place)
    cpuset.plan(cores(1))
    job.rename(job.with_name("old"))
    with pytest.raises(JobGoneError, match=f"^{job} is gone$"):
        cpuset.give(cores(1))
    cpuset.restore()


RERUNS = [("4-7", "4-7"), ("2-3", "2-3"), ("0-7", "0-7"), ("0-3", "0-3"), ("4-7", "0-1")]


@pytest.mark.parametrize(("job_cores", "step_cores"), RERUNS)
@pytest.mark.parametrize("old", [False, True])
def test_cores_that_slurm_gave_to_a_requeued_job_stay(
    place: JobLocation, job_cores: str, step_cores: str, old: bool
) -> None:
    """Its groups have the names of those before, and an undo is left of these; of any version."""
    job = version_2(Path(place.mount), place, "0-3")
    cpuset = Cpuset(place)
    cpuset.plan(cores(0, 1))
    cpuset.give(cores(0, 1))
    kept = {name: texts[0] if old else texts for name, texts in cpuset.kept.items()}
    (job / "cpuset.cpus").write_text(f"{job_cores}\n")
    (job / "step_batch/cpuset.cpus").write_text(f"{step_cores}\n")
    Cpuset(place, kept).restore()
    assert (job / "cpuset.cpus").read_text().strip() == job_cores
    assert (job / "step_batch/cpuset.cpus").read_text().strip() == step_cores


@pytest.mark.parametrize("step_cores", ["0-3", "0-1", "1-2"])
@pytest.mark.parametrize("old", [False, True])
def test_a_killed_controllers_cores_are_undone(
    place: JobLocation, step_cores: str, old: bool
) -> None:
    """Whichever of its cores it had come to write; and from an undo of an earlier version."""
    job = version_2(Path(place.mount), place, "0-3")
    cpuset = Cpuset(place)
    for wanted in (cores(0, 1), cores(1, 2)):
        cpuset.plan(wanted)
        if wanted == cores(0, 1):
            cpuset.give(wanted)
    kept = {name: texts[0] if old else texts for name, texts in cpuset.kept.items()}
    (job / "step_batch/cpuset.cpus").write_text(step_cores)
    Cpuset(place, kept).restore()
    assert (job / "cpuset.cpus").read_text().strip() == "0-3"
    assert (job / "step_batch/cpuset.cpus").read_text() == "0-3"


def test_at_most_512_groups_of_a_job_are_changed(place: JobLocation) -> None:
    """A user may make as many as it likes; the job's own is the first, links are none."""
    job = version_2(Path(place.mount), place, "0-3")
    (job / "linked").symlink_to(job / "step_batch")
    for number in range(510):
        (job / f"x{number}").mkdir()
    groups = list(cpuset_module._below(job))
    assert len(groups) == 511
    assert groups[0] == job / "step_batch"
    assert job / "linked" not in groups
    assert job / "step_batch/user" not in groups


class Threads:
    """Threads of processes 1 and 2, and their masks."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, masks: dict[int, set[int]]
    ) -> None:
        self.folder, self.masks = folder, masks
        self.set: list[int] = []
        self.forks: dict[int, set[int]] = {}
        for thread in masks:
            self.add(thread)
        monkeypatch.setattr(os, "sched_getaffinity", lambda thread: set(self._of(thread)))
        monkeypatch.setattr(os, "sched_setaffinity", self._set)

    @property
    def place(self) -> JobLocation:
        """The job."""
        masks = self.masks

        class Place(JobLocation):
            def pids(self) -> set[int]:
                return {thread // 10 for thread in masks}

        return Place(job_id=7, uid=0, node="n1", proc=str(self.folder))

    def add(self, thread: int) -> None:
        """Make a thread: 11 is one of process 1."""
        (self.folder / str(thread // 10) / "task" / str(thread)).mkdir(parents=True)

    def _of(self, thread: int) -> set[int]:
        if thread not in self.masks:
            raise ProcessLookupError
        return self.masks[thread]

    def _set(self, thread: int, mask: frozenset[int]) -> None:
        self.masks[thread] = set(mask)
        self.set.append(thread)
        for fork, old in self.forks.items():
            self.masks[fork] = old
            self.add(fork)
        self.forks = {}


@pytest.mark.parametrize(
    ("masks", "expected"),
    [
        ({10: {0, 1}, 11: {0, 1}, 20: {2}}, [0, 1]),
        ({10: {0}, 11: {0}, 20: {0, 1, 2}}, [0]),  # most threads have it
        ({10: {0}, 11: {1, 2}, 20: {3}}, [1, 2]),  # of equals, the largest
    ],
)
def test_cores_of_a_job_are_those_of_most_threads(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    masks: dict[int, set[int]],
    expected: list[int],
) -> None:
    """Others were pinned by the user."""
    affinity = Affinity(Threads(tmp_path, monkeypatch, masks).place)
    assert affinity.cores == frozenset(expected)
    assert affinity.kept == {"before": expected, "ours": []}


def test_a_job_without_a_thread_has_no_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has ended: said so, and nothing is to be put back."""
    affinity = Affinity(Threads(tmp_path, monkeypatch, {}).place)
    with pytest.raises(JobGoneError, match=r"^the job has no process$"):
        _ = affinity.cores
    affinity.restore()


def test_masks_of_ours_are_noted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In ascending order; that of before is not one of them."""
    affinity = Affinity(Threads(tmp_path, monkeypatch, {10: {0, 1, 2}}).place)
    for planned in (cores(2, 1), cores(1, 2), cores(0, 1, 2), cores(0)):
        affinity.plan(planned)
    assert affinity.kept == {"before": [0, 1, 2], "ours": [[1, 2], [0]]}


def test_threads_move_and_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is forked meanwhile with the old mask; one that its user pinned stays."""
    threads = Threads(tmp_path, monkeypatch, {10: {0, 1}, 11: {0, 1}, 20: {1}})
    affinity = Affinity(threads.place)
    affinity.plan(cores(2))
    threads.forks = {21: {0, 1}}
    affinity.give(cores(2))
    assert threads.masks == {10: {2}, 11: {2}, 20: {1}, 21: {2}}
    assert sorted(threads.set) == [10, 11, 21]
    affinity.plan(cores(3))
    affinity.give(cores(3))
    assert threads.masks == {10: {3}, 11: {3}, 20: {1}, 21: {3}}
    threads.forks, threads.set = {12: {3}, 13: {2}}, []
    Affinity(threads.place, affinity.kept).restore()
    back = {0, 1}
    assert threads.masks == {10: back, 11: back, 12: back, 13: back, 20: {1}, 21: back}
    assert sorted(threads.set) == [10, 11, 12, 13, 21]


def test_nothing_is_put_back_where_nothing_was_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that was only looked at keeps its masks."""
    threads = Threads(tmp_path, monkeypatch, {10: {0, 1}})
    affinity = Affinity(threads.place)
    assert affinity.cores == cores(0, 1)
    affinity.restore()
    Affinity(threads.place).restore()
    assert threads.set == []


def test_threads_that_are_gone_or_odd_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So are processes without a folder; the others are moved."""
    threads = Threads(tmp_path, monkeypatch, {10: {0}, 20: {0}})
    threads.add(15)
    threads.masks[30] = {0}
    affinity = Affinity(threads.place)
    affinity.plan(cores(1))
    affinity.give(cores(1))
    assert threads.masks == {10: {1}, 20: {1}, 30: {0}}


def test_at_most_so_many_threads_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20,000 of all processes together: a job with more must not stop the loop."""
    assert affinity_module.MAX_THREADS == 20_000
    monkeypatch.setattr(affinity_module, "MAX_THREADS", 3)
    masks = {thread: {0} for thread in (10, 11, 20, 21, 30)}
    affinity = Affinity(Threads(tmp_path, monkeypatch, masks).place)
    assert len(list(affinity._threads())) == 3


def test_where_a_jobs_groups_are(place: JobLocation) -> None:
    """The node's own name comes before the plain one; version 1 has no group of version 2."""
    assert (place.v1_folder("cpu"), place.v2_folder(), place.group()) == (None, None, None)
    plain = Path(place.mount, "cpu/slurm/uid_1000/job_7")
    plain.mkdir(parents=True)
    assert place.v1_folder("cpu") == plain
    named = Path(place.mount, "cpu/slurm_n1/uid_1000/job_7")
    named.mkdir(parents=True)
    assert (place.v1_folder("cpu"), place.v1_folder("blkio")) == (named, None)
    assert place.v2_folder() is None


def test_processes_of_a_job_by_its_group_else_by_their_environment(
    place: JobLocation, tmp_path: Path
) -> None:
    """An empty group says nothing: Slurm may track processes elsewhere."""
    job = version_2(Path(place.mount), place, "0-3")
    process = tmp_path / "proc/12"
    process.mkdir(parents=True)
    place = JobLocation(
        job_id=7, uid=1000, node="n1", mount=place.mount, proc=str(tmp_path / "proc")
    )
    assert place.pids() == set()
    (job / "step_batch/user/cgroup.procs").write_text("5\n6\n")
    assert place.pids() == {5, 6}
