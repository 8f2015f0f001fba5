"""A job's hardware counters: decisions on a kernel made up, and real counts beside real perf."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_ext.node.counters.perf import events, job_counters
from slurm_ext.node.counters.perf.job_counters import MAX_FDS, JobPerf
from slurm_ext.node.counters.perf.syscall import HARDWARE, PerfEvent, PerfKernel
from slurm_ext.node.kernel.cgroup import Cgroup
from slurm_ext.node.kernel.processes import JobProcesses
from tests.node.by_hand import wait_for
from tests.node.made_up_kernel import MadeUp, counted

WORK = "import sys\nsys.stdin.readline()\nfor _ in range(2 * 10**6): pass\n"
UNIFIED = [Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")]


@pytest.fixture
def me() -> JobProcesses:
    """This very process as a job."""
    processes = JobProcesses(1, os.getuid(), "n1")
    processes.update([os.getpid()], switches=False)
    return processes


def test_what_the_kernel_refuses_is_missing_and_says_why(me: JobProcesses) -> None:
    """One event supported, another not: the first is counted, the second never 0."""
    perf = JobPerf({}, MadeUp({"instructions": (500, 10, 10)}), duty=1.0)
    threads = len(list(Path(f"/proc/{os.getpid()}/task").iterdir()))
    assert counted(perf, me) == {"perf_instructions": 500 * threads, "perf_running_share": 1.0}
    assert "No such file" in perf.refused["perf_cycles"]


def test_an_event_that_nobody_counts_is_missing(me: JobProcesses) -> None:
    """A hypervisor that has no counter left answers 0 beside a billion cycles."""
    kernel = MadeUp({"cycles": (10**9, 10, 10), "branch-misses": (0, 10, 10)})
    found = counted(JobPerf({}, kernel, duty=1.0), me)
    assert "perf_cycles" in found
    assert "perf_branch_misses" not in found


def test_totals_never_go_down_and_outlive_a_sampler(me: JobProcesses) -> None:
    """A multiplexed estimate may fall, a descriptor may go bad, a sampler may start anew."""
    kernel = MadeUp({"instructions": (500, 100, 50)})
    perf = JobPerf({}, kernel, duty=1.0)
    first = counted(perf, me)["perf_instructions"]
    kernel.readings["instructions"] = (500, 100, 100)
    assert counted(perf, me)["perf_instructions"] == first
    kernel.readings["instructions"] = (-1, -1, -1)
    perf.sample(me.members, None)
    assert perf.totals()["perf_instructions"][1] == first
    again = JobPerf({"perf_instructions": first}, MadeUp({"instructions": (7, 1, 1)}), duty=1.0)
    assert counted(again, me)["perf_instructions"] > first


def test_an_events_share_of_the_processor_is_told(me: JobProcesses) -> None:
    """Half the time multiplexed away: the figures are estimates, and the record shows it."""
    perf = JobPerf(
        {}, MadeUp({"instructions": (100, 100, 50), "task-clock": (100, 100, 100)}), duty=1.0
    )
    assert counted(perf, me)["perf_running_share"] == 0.5


def test_descriptors_are_bounded(monkeypatch: pytest.MonkeyPatch, me: JobProcesses) -> None:
    """A job of many threads is counted as far as there is room, and nothing fails."""
    monkeypatch.setattr(os, "listdir", lambda _: [str(n) for n in range(MAX_FDS)])
    kernel = MadeUp({"instructions": (1, 1, 1), "cycles": (1, 1, 1)})
    perf = JobPerf({}, kernel, duty=1.0)
    before = len(kernel.opened)
    perf.sample(me.members, None)
    assert perf.full
    assert len(kernel.opened) == before


@pytest.mark.parametrize(("online", "counted_on"), [("0-3", [0, 1, 2, 3]), ("0-999", [1, 2])])
def test_a_group_is_counted_on_cores_that_it_may_be_lent(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    me: JobProcesses,
    online: str,
    counted_on: list[int],
) -> None:
    """Its own cores may become more while it runs; they alone are counted where all do not fit."""
    (tmp_path / "online").write_text(f"{online}\n")
    (tmp_path / "cpuset.cpus.effective").write_text("1-2\n")
    monkeypatch.setattr(job_counters, "_ONLINE", str(tmp_path / "online"))
    kernel, cpus = MadeUp({"instructions": (1, 1, 1)}), list[int]()

    def open_in(event: PerfEvent, _folder: int, cpu: int) -> int:
        cpus.append(cpu)
        return kernel.open(event, cpu=cpu)

    monkeypatch.setattr(kernel, "open_in", open_in)
    group = Cgroup({"unified": str(tmp_path)})
    JobPerf({}, kernel, duty=1.0).sample(me.members, group)
    assert cpus == counted_on


def test_generic_names_mean_what_the_processor_means() -> None:
    """`cache-misses` is the last level's on Intel, the second level's on AMD Zen."""
    amd, intel = events.candidates("AuthenticAMD"), events.candidates("GenuineIntel")
    assert [e.label for e in amd["perf_l2_misses"]] == ["cache-misses"]
    assert amd["perf_llc_misses"][0].label == "LLC-load-misses"
    assert intel["perf_llc_misses"][0].label == "cache-misses"


def test_a_guest_counts_no_more_than_it_counts_right(tmp_path: Path) -> None:
    """In a virtual machine the last of the list give way, with the reason."""
    info = tmp_path / "cpuinfo"
    info.write_text("vendor_id\t: AuthenticAMD\nflags\t\t: fpu hypervisor\n")
    most = events.most_at_once(str(info))
    labels = {e.label: (1, 1, 1) for c in events.candidates("").values() for e in c}
    found, refused = events.usable(MadeUp(labels), events.candidates(""), most)
    assert sum(event.kind == HARDWARE for event in found.values()) <= most
    assert "virtual machine" in refused["perf_stalled_cycles"]
    assert events.vendor(str(info)) == "AuthenticAMD"


# -- the real kernel ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pmu() -> dict[str, PerfEvent]:
    """The real events of this machine; skips where it has none."""
    found, refused = events.usable(PerfKernel(), events.candidates(events.vendor()))
    if "perf_instructions" not in found:
        pytest.skip(f"no hardware counters here: {refused['perf_instructions']}")
    return found


def _perf_stat(*words: str) -> list[str]:
    """`perf stat` in its machine form before a command; skips where it does not work."""
    head = ["perf", "stat", "-x,", "-e", "instructions:u", "-o", words[0]]
    try:
        done = subprocess.run([*head, "true"], capture_output=True)
    except OSError:
        pytest.skip("perf(1) is not installed")
    if done.returncode != 0:
        pytest.skip("perf(1) does not work here")
    return head


def test_instructions_agree_with_perf_stat(pmu: dict[str, PerfEvent], tmp_path: Path) -> None:
    """The same run counted by both: within 5 % (perf counts the start of the program as well)."""
    said = tmp_path / "said"
    head = _perf_stat(str(said))
    child = subprocess.Popen([*head, sys.executable, "-S", "-c", WORK], stdin=subprocess.PIPE)
    assert child.stdin is not None
    kids = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    wait_for(lambda: kids.read_text().split())
    (pid,) = (int(word) for word in kids.read_text().split())
    wait_for(lambda: Path(f"/proc/{pid}/wchan").exists() and _reads_stdin(pid))
    fd = PerfKernel().open(PerfEvent("instructions:u", HARDWARE, 1, user_only=True), pid=pid)
    child.communicate(b"go\n")
    ours, enabled, running = PerfKernel().read(fd)
    os.close(fd)
    theirs = next(line for line in said.read_text().splitlines() if "instructions" in line)
    if enabled != running:
        pytest.skip("somebody else counts at this moment, and the counters are too few for both")
    assert ours == pytest.approx(float(theirs.split(",")[0]), rel=0.05)


def _reads_stdin(pid: int) -> bool:
    text = Path(f"/proc/{pid}/syscall").read_text().split()
    return text[:2] == ["0", "0x0"]  # read(0, ...) on x86


def test_children_and_grandchildren_arecounted(pmu: dict[str, PerfEvent]) -> None:
    """What a shell starts after we attached counts as the shell's, also when it has ended."""
    code = "import os, sys\nsys.stdin.readline()\nfor _ in range(2):\n if os.fork() == 0:\n"
    code += "  for _ in range(10**6): pass\n  os._exit(0)\n os.wait()\nprint(1, flush=True)\n"
    code += "sys.stdin.readline()\n"
    child = subprocess.Popen(
        [sys.executable, "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    processes = JobProcesses(1, os.getuid(), "n1")
    processes.update([child.pid], switches=False)
    perf = JobPerf({}, duty=1.0)
    perf.sample(processes.members, None)
    child.stdin.write(b"go\n")
    child.stdin.flush()
    child.stdout.readline()
    found = perf.totals()
    child.communicate(b"end\n")
    assert found["perf_instructions"][0].startswith("perf/process/instructions")
    assert found["perf_instructions"][1] > 2 * 10**6
    assert found["perf_task_clock"][1] > 0


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of version 2; skips where this machine gives none."""
    usable = [r for r in UNIFIED if (r / "cgroup.controllers").exists() and os.access(r, os.W_OK)]
    if not usable:
        pytest.skip("no control group of version 2 to be made here")
    folder = usable[0] / f"dlqueue-test-{os.getpid()}"
    folder.mkdir()
    yield folder
    wait_for(lambda: not (folder / "cgroup.procs").read_text())
    folder.rmdir()


@pytest.mark.root
def test_a_control_group_is_counted_whole(pmu: dict[str, PerfEvent], group: Path) -> None:
    """Every process in it, one counter an event and CPU, and the source says so."""
    child = subprocess.Popen([sys.executable, "-S", "-c", WORK], stdin=subprocess.PIPE)
    (group / "cgroup.procs").write_text(str(child.pid))
    processes = JobProcesses(1, os.getuid(), "n1")
    processes.update([child.pid], switches=False)
    perf = JobPerf({}, duty=1.0)
    perf.sample(processes.members, Cgroup({"unified": str(group)}))
    child.communicate(b"go\n")
    found = perf.totals()
    perf.close()
    if not found["perf_instructions"][0].startswith("perf/cgroup/"):
        pytest.skip("this kernel counts no control groups")
    assert found["perf_instructions"][1] > 2 * 10**6


def test_a_guest_counts_little_of_the_time_and_says_so(me: JobProcesses) -> None:
    """Each counter makes a guest's task switches dear: none but in a window."""
    kernel = MadeUp({"instructions": (10**7, 10**8, 10**8), "task-clock": (10**9, 10**9, 10**9)})
    perf = JobPerf({}, kernel, duty=0.02)
    assert counted(perf, me)["perf_running_share"] == pytest.approx(0.1)
    still = [kernel.opened[fd] for fd in kernel.opened if fd not in kernel.closed]
    assert set(still) == {"task-clock"}
    before = len(kernel.opened)
    perf.sample(me.members, None)
    assert len(kernel.opened) == before  # not again so soon
