"""The counters' row against NVML's stand-in, with loads that say what they were told to be."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from contrib.bench.gpu.here import Here
from contrib.bench.gpu.loads import Done
from contrib.bench.gpu.report import AbsentError, Report
from contrib.bench.gpu.rows import counters
from tests.bench.gpu.gpu_here import UUID, here
from tests.nvml_standin import Gpu, StandIn


class PerfectLoad:
    """A load that is exactly what it was told to be; the GPU tells of it."""

    def __init__(self, gpu: "PerfectGpu", pid: int) -> None:
        self.gpu, self.pid = gpu, pid
        self.share, self.hold_mib = 0.0, 0

    def begin(self, kind: str, seconds: float, share: float = 1.0, hold_mib: int = 0) -> None:
        """From now on it computes."""
        del kind, seconds
        self.share, self.hold_mib = share, hold_mib
        self.gpu.say()

    def end(self) -> Done:
        """It is over."""
        done = Done(kernels=1, wall_s=1.0, busy_s=self.share, own_s=self.share, gib=2.0)
        self.share = 0.0
        self.gpu.say()
        return done


class PerfectGpu:
    """A GPU with two loads, seen through NVML's stand-in."""

    def __init__(self, library: StandIn, state: str = "metered") -> None:
        self.library, self.state, self.pids_of = library, state, 4
        self.loads = [PerfectLoad(self, 4), PerfectLoad(self, 5)]
        self.say()

    def say(self) -> None:
        """What the loads are now."""
        (one, other), shift = self.loads, self.pids_of - 4
        busy = min(100, round(100 * (one.share + other.share)))
        gpu = Gpu(uuid=UUID, state=self.state, util=busy, sm_active=float(busy))
        gpu.pid, gpu.pid_sm = one.pid + shift, round(100 * one.share)
        gpu.other_pid, gpu.other_sm = other.pid + shift, round(100 * other.share)
        gpu.pid_mem, gpu.other_mem = (500 + one.hold_mib) << 20, (500 + other.hold_mib) << 20
        self.library.say(gpu)


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """NVML's place taken for this process and its children, and spans that are short."""
    library = StandIn(tmp_path)
    for name, text in library.env.items():
        monkeypatch.setenv(name, text)
    library.load()
    monkeypatch.setattr(counters, "SETTLE_S", 0.02)
    monkeypatch.setattr(counters, "SPAN_S", (0.5, 0.5))
    monkeypatch.setattr(counters, "END_S", 0.0)
    return library


def _measured(gpu: PerfectGpu, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Report:
    @contextlib.contextmanager
    def loads(*_: object) -> Iterator[list[PerfectLoad]]:
        yield gpu.loads

    monkeypatch.setattr(counters, "loads", loads)
    report = Report()
    counters.measure(here(folder), report)
    return report


def test_an_honest_gpu_is_found_honest(
    library: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its utilisation, each process's part and memory, and its energy against its power."""
    report = _measured(PerfectGpu(library), tmp_path, monkeypatch)
    found = {name: one["value"] for name, one in report.figures().items()}
    assert report.absent == {}
    assert (found["gpu_util_50"], found["gpu_util_error_90"]) == pytest.approx((0.5, 0.0))
    assert found["gpm_sm_active_error_25"] == pytest.approx(0.0)
    assert found["job_util_error_50"] == pytest.approx(0.0)
    assert found["attribution_error"] == pytest.approx(0.0)
    assert found["job_memory_error"] == pytest.approx(0.0)
    assert found["idle_power"] == pytest.approx(300.0, rel=0.5)
    assert found["energy_against_power_90"] < 0.5
    assert {"copy_rate", "pcie_rate", "pcie_error", "gpm_dram_active_copy"} <= found.keys()
    assert report.facts["PCIe by"] == "rates"
    assert found["share_by_events_50"] == 0.5
    assert report.facts["other processes on the GPU"] == 0


def test_what_one_process_is_credited_of_anothers_is_found(
    library: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU that counts both as the first one misses by a quarter, and it shows."""
    gpu = PerfectGpu(library)
    say = library.say

    def swapped(one: Gpu) -> None:
        one.pid_sm, one.other_sm = one.pid_sm + one.other_sm, 0
        say(one)

    monkeypatch.setattr(library, "say", swapped)
    report = _measured(gpu, tmp_path, monkeypatch)
    assert report.figures()["attribution_error"]["value"] == pytest.approx(0.25)


def test_what_an_older_gpu_lacks_is_named(
    library: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No energy meter, no GPM: the other figures are there all the same."""
    report = _measured(PerfectGpu(library, "old"), tmp_path, monkeypatch)
    assert report.absent.keys() == {"GPM", "energy"}
    assert "gpu_util_50" in report.figures()
    assert not any(name.startswith(("gpm_", "energy_")) for name in report.figures())


def test_processes_of_another_namespace_are_not_attributed(
    library: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVML tells pids of the host in a container: that is named, and no share is made up."""
    gpu = PerfectGpu(library)
    gpu.pids_of = 4000
    gpu.say()
    report = _measured(gpu, tmp_path, monkeypatch)
    assert "another pid namespace" in report.absent["attribution"]
    assert not {"attribution_error", "job_memory_error"} & report.figures().keys()


@pytest.mark.parametrize(
    ("gpu", "why"),
    [
        (Gpu(uuid=UUID, mig=1), "MIG is on"),
        (Gpu(uuid="GPU-other"), "fell off"),
        (Gpu(uuid=UUID, state="hang"), "did not answer"),
    ],
)
def test_a_gpu_that_tells_nothing_is_no_row(
    library: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpu: Gpu, why: str
) -> None:
    """Divided, gone, or behind a driver that hangs: the row is absent with that reason."""
    monkeypatch.setattr("contrib.bench.gpu.gauge.ANSWER_S", 1.0)
    library.say(gpu)
    with pytest.raises(AbsentError, match=why):
        counters.measure(here(tmp_path), Report())


def test_without_a_device_the_reason_is_the_machines(tmp_path: Path) -> None:
    """Nothing is started."""
    surroundings: Here = here(tmp_path, device="", no_device="torch 1 has no CUDA build")
    with pytest.raises(AbsentError, match="no CUDA build"):
        counters.measure(surroundings, Report())
