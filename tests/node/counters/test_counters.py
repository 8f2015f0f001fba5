"""Counters from control groups and /proc: read from trees as kernels lay them out."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.node.counters.columns import UNITS, counter_rows
from slurm_ext.node.counters.hardware import HardwareCounters
from slurm_ext.node.counters.meter import JobMeter
from slurm_ext.node.counters.timeline import MAX_ROWS, Timeline
from slurm_ext.node.kernel import cgroup
from slurm_ext.node.kernel.processes import JobProcess, JobProcesses
from tests.node.made_up_kernel import MadeUp

IDENTITY = {"job_id": 7, "uid": 1000, "node": "n1"}


def _write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def v1(tmp_path: Path) -> Path:
    """Version 1, two slurmd on one machine."""
    job = "slurm_n1/uid_1000/job_7"
    files = {
        f"cpuacct/{job}/cpuacct.stat": "user 250\nsystem 50\n",
        f"cpu/{job}/cpu.stat": "nr_periods 4\nnr_throttled 2\nthrottled_time 1500000000\n",
        f"memory/{job}/memory.max_usage_in_bytes": "4096000\n",
        f"memory/{job}/memory.usage_in_bytes": "1024000\n",
        f"memory/{job}/memory.stat": "rss 1\npgmajfault 1\ntotal_rss 800\n"
        "total_shmem 24\ntotal_cache 99\ntotal_pgmajfault 12\n",
        f"memory/{job}/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
        f"freezer/{job}/step_batch/cgroup.procs": f"{os.getpid()}\n",
        "cpuacct/slurm_n2/uid_1000/job_7/cpuacct.stat": "user 9999\nsystem 9999\n",
    }
    _write(tmp_path, files)
    return tmp_path


@pytest.fixture
def v2(tmp_path: Path) -> Path:
    """Version 2 as systemd and slurmstepd lay it out."""
    job = "system.slice/slurmstepd.scope/job_7"
    files = {
        "cgroup.controllers": "cpu io memory\n",
        f"{job}/cpu.stat": "usage_usec 3000000\nuser_usec 2500000\nsystem_usec 500000\n"
        "nr_throttled 2\nthrottled_usec 1500000\n",
        f"{job}/memory.peak": "4096000\n",
        f"{job}/memory.current": "1024000\n",
        f"{job}/memory.stat": "anon 800\nfile 99\nshmem 24\npgmajfault 12\n",
        f"{job}/memory.events": "low 0\noom 1\noom_kill 1\n",
        f"{job}/io.stat": "254:0 rbytes=100 wbytes=7 rios=1\n8:0 rbytes=11 wbytes=1 rios=2\n",
        f"{job}/cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=2000000\n",
        f"{job}/step_0/user/task_0/cgroup.procs": f"{os.getpid()}\n",
    }
    _write(tmp_path, files)
    return tmp_path


def test_version_1_counters(v1: Path) -> None:
    """Units are seconds and bytes; what is not counted is None, never zero."""
    group = cgroup.find(7, 1000, "n1", str(v1))
    assert group is not None
    assert group.source == "cgroup/v1"
    assert group.pids() == {os.getpid()}
    assert group.read() == {
        "cpu_user": 2.5,
        "cpu_system": 0.5,
        "cpu_throttled": 1.5,
        "mem_peak": 4096000,
        "mem_now": 1024000,
        "mem_held_peak": 824,
        "major_faults": 12,
        "oom_kills": 1,
        "io_read": None,
        "io_write": None,
    }


def test_version_2_counters(v2: Path) -> None:
    """The same names as version 1, and pressure."""
    group = cgroup.find(7, 1000, "n1", str(v2))
    assert group is not None
    assert group.pids() == {os.getpid()}
    assert group.read() == {
        "cpu_user": 2.5,
        "cpu_system": 0.5,
        "cpu_throttled": 1.5,
        "mem_peak": 4096000,
        "mem_now": 1024000,
        "mem_held_peak": 824,
        "major_faults": 12,
        "oom_kills": 1,
        "io_read": 111,
        "io_write": 8,
        "pressure_cpu_some": 2.0,
        "pressure_memory_some": None,
        "pressure_io_some": None,
    }


def test_a_group_in_an_unusual_place_is_found_through_a_process(v2: Path) -> None:
    """/proc/<pid>/cgroup names it."""
    text = "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n"
    group = cgroup.of_process(text, 7, str(v2))
    assert group is not None
    assert group.exists()
    assert cgroup.of_process(text, 8, str(v2)) is None
    assert cgroup.of_process("0::/user.slice\n", 7, str(v2)) is None


@pytest.mark.parametrize("kind", ["v1", "v2"])
def test_the_best_source_counts(kind: str, request: pytest.FixtureRequest) -> None:
    """A control group outranks /proc; what only /proc counts says so."""
    mount = request.getfixturevalue(kind)
    meter = JobMeter(IDENTITY, {}, mount=str(mount))
    assert meter.sample(last=True)
    found = {each["name"]: each for each in counter_rows(meter.totals)}
    assert set(found) == set(UNITS)
    assert (found["cpu_user"]["source"], found["cpu_user"]["value"]) == (f"cgroup/{kind}", 2.5)
    assert found["context_switches"]["source"] == "proc"
    assert meter.mem_now == 1024000


def test_totals_survive_the_group_and_a_successor(v2: Path) -> None:
    """When the group is gone totals stay, and a restarted sampler goes on from them."""
    first = JobMeter(IDENTITY, {}, mount=str(v2))
    first.sample()
    (v2 / "system.slice/slurmstepd.scope/job_7/cpu.stat").write_text("user_usec 1\n")
    first.sample()
    second = JobMeter(IDENTITY, first.saved(), mount=str(v2 / "nowhere"))
    second.sample()
    assert second.totals["cpu_user"] == ("cgroup/v2", 2.5)


def test_every_descriptor_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that counted may go on, to deliver the record for a day."""
    kernel, closed = MadeUp({"task-clock": (1, 1, 1)}), list[str]()

    class Memory:
        def __init__(self, *_: object) -> None: ...

        def totals(self) -> dict[str, tuple[str, float]]:
            return {}

        def close(self) -> None:
            closed.append("uncore")

    monkeypatch.setattr("slurm_ext.node.counters.perf.job_counters.PerfKernel", lambda: kernel)
    monkeypatch.setattr("slurm_ext.node.counters.perf.uncore.Uncore", Memory)
    hardware, me = HardwareCounters([], {}), JobProcesses(1, os.getuid(), "n1")
    me.update([os.getpid()], switches=False)
    hardware.sample(me.members, None)
    before = hardware.totals()
    hardware.close()
    assert before
    assert set(kernel.closed) == set(kernel.opened)
    assert (closed, hardware.faults(), hardware.totals()) == (["uncore"], [], before)


def test_what_nobody_measured_is_null() -> None:
    """Every counter of the contract is listed; without a source it has neither value nor source."""
    assert {(c["source"], c["value"]) for c in counter_rows({})} == {("none", None)}


# -- /proc ----------------------------------------------------------------------------------------


def _stat(pid: int, parent: int, *, user: int = 0, waited: int = 0, started: int = 1) -> str:
    fields = ["0"] * 50
    fields[:2] = ["S", str(parent)]
    fields[11], fields[13], fields[19], fields[21] = map(str, (user, waited, started, 10))
    return f"{pid} (a) b (c) {' '.join(fields)}\n"


def _tree(proc: Path, processes: dict[int, str]) -> None:
    for entry in proc.iterdir():
        if entry.name.isdecimal():
            (entry / "stat").unlink()
            (entry / "environ").unlink()
            entry.rmdir()
    for pid, text in processes.items():
        environ = "A=1\0SLURM_JOB_ID=7\0" if pid == 10 else "A=1\0"
        _write(proc, {f"{pid}/stat": text, f"{pid}/environ": environ})


def _cpu(processes: JobProcesses) -> float | None:
    processes.update(processes.find(), switches=False)
    return processes.totals()["cpu_user"]


def test_a_child_that_was_waited_for_counts_once(tmp_path: Path) -> None:
    """While it lives as itself, afterwards through its parent."""
    processes = JobProcesses(7, os.getuid(), "n1", str(tmp_path))
    _tree(tmp_path, {10: _stat(10, 1, user=100), 11: _stat(11, 10, user=200)})
    assert _cpu(processes) == 3.0
    _tree(tmp_path, {10: _stat(10, 1, user=100, waited=200)})
    assert _cpu(processes) == 3.0


def test_processes_that_leave_together_keep_their_counts(tmp_path: Path) -> None:
    """Parent and child gone between two samples: both of their last figures stay."""
    processes = JobProcesses(7, os.getuid(), "n1", str(tmp_path))
    _tree(tmp_path, {10: _stat(10, 1, user=100), 11: _stat(11, 10, user=200)})
    _cpu(processes)
    _tree(tmp_path, {})
    assert _cpu(processes) == 3.0


def test_a_pid_used_again_is_another_process(tmp_path: Path) -> None:
    """The start time tells them apart: the first one's seconds are kept."""
    processes = JobProcesses(7, os.getuid(), "n1", str(tmp_path))
    _tree(tmp_path, {10: _stat(10, 1, user=100)})
    _cpu(processes)
    _tree(tmp_path, {10: _stat(10, 1, user=50, started=99)})
    assert _cpu(processes) == 1.5


def test_a_strangers_process_with_a_members_pid_is_not_of_the_job(tmp_path: Path) -> None:
    """Nor are its children: it has to belong to the job by itself."""
    processes = JobProcesses(7, os.getuid(), "n1", str(tmp_path))
    _tree(tmp_path, {10: _stat(10, 1), 11: _stat(11, 10, user=100)})
    assert _cpu(processes) == 1.0
    anew = _stat(11, 1, user=900, started=99)
    _tree(tmp_path, {10: _stat(10, 1, waited=100), 11: anew, 12: _stat(12, 11, user=900)})
    assert processes.find() == {10}
    assert _cpu(processes) == 1.0


def test_an_orphan_stays_in_the_job(tmp_path: Path) -> None:
    """A daemonised child whose environment is gone is still counted."""
    processes = JobProcesses(7, os.getuid(), "n1", str(tmp_path))
    _tree(tmp_path, {10: _stat(10, 1), 11: _stat(11, 10, user=100)})
    _cpu(processes)
    _tree(tmp_path, {11: _stat(11, 1, user=200)})
    assert _cpu(processes) == 2.0


@pytest.mark.parametrize(
    ("environ", "ours"),
    [
        ({"SLURM_JOB_ID": "4711"}, True),
        ({"SLURM_JOB_ID": "4711", "SLURMD_NODENAME": "n1"}, True),
        ({"SLURM_JOB_ID": "4711", "SLURMD_NODENAME": "n2"}, False),
        ({"SLURM_JOB_ID": "47110"}, False),
        ({"SLURM_JOB_ID": "4711", "SLURM_SCRIPT_CONTEXT": "prolog_slurmd"}, False),
        ({"SLURM_JOB_ID": "4711", "SLURM_SCRIPT_CONTEXT": "prolog_task"}, True),
    ],
)
def test_real_processes_are_told_by_their_environment(environ: dict[str, str], ours: bool) -> None:
    """Job, node and user must fit; hooks and what they left behind are not the job."""
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "import time; print(1, flush=True); time.sleep(60)"],
        env=environ,
        stdout=subprocess.PIPE,
    )
    try:
        assert child.stdout is not None
        child.stdout.read(1)
        assert (child.pid in JobProcesses(4711, os.getuid(), "n1").find()) == ours
        assert child.pid not in JobProcesses(4711, os.getuid() + 1, "n1").find()
    finally:
        child.kill()
        child.communicate()


def test_real_threads_switches_are_counted() -> None:
    """Context switches of every thread, as the kernel counts them."""
    before = _own_switches()
    time.sleep(0.01)
    assert _own_switches() > before


def _own_switches() -> float:
    processes = JobProcesses(1, os.getuid(), "n1")
    processes.update([os.getpid()], switches=True)
    found = processes.totals()["context_switches"]
    assert found is not None
    return found


def test_a_process_name_cannot_pose_as_fields() -> None:
    """A name such as `x) R 1` does not shift the fields."""
    fields = _stat(5, 3, user=7).rpartition(")")[2].split()
    assert JobProcess(fields, (None, None)).parent == 3


@given(st.integers(1, 5000))
def test_a_timeline_stays_small_and_ordered(count: int) -> None:
    """However long the job: at most MAX_ROWS rows, in order, from its first half on spread out."""
    timeline = Timeline()
    for t in range(count):
        timeline.add((float(t), None, None, None))
    times = [row[0] or 0.0 for row in timeline.rows]
    assert len(times) <= MAX_ROWS
    assert times == sorted(times)
    assert times[0] == 0.0
    assert times[-1] >= count - 1 - timeline.stride
