"""Pairs of loads whose slowdowns are known: speeds, modes, and bounds against what happened."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from contrib.bench.gpu import mps_jobs
from contrib.bench.gpu.loads import Done
from contrib.bench.gpu.report import Report
from contrib.bench.gpu.rows import pairs
from slurm_ext.node.mps import daemon as mps_daemon
from tests.bench.gpu.gpu_here import UUID, here
from tests.mps_standin import install


class Gpu:
    """A GPU that gives each of two loads `together` of its speed, and one alone all of it."""

    def __init__(self, together: float) -> None:
        self.together = together
        self.loads: list[Known] = []
        self.environments: list[Mapping[str, str]] = []

    @contextlib.contextmanager
    def started(
        self, _here: object, number: int, _kinds: object, env: Mapping[str, str]
    ) -> Iterator[list["Known"]]:
        """As `loads`."""
        self.environments.append(env)
        self.loads = [Known(self) for _ in range(number)]
        yield self.loads


class Known:
    """A load of 100 kernels a second."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu, self.busy, self.alone = gpu, False, True

    def begin(self, _kind: str, _seconds: float, gap_s: float = 0.0) -> None:
        """From now on it is busy."""
        del gap_s
        self.busy = True
        for load in self.gpu.loads:
            load.alone = sum(other.busy for other in self.gpu.loads) < 2

    def end(self) -> Done:
        """Its kernels."""
        self.busy = False
        speed = 1.0 if self.alone else self.gpu.together
        return Done(kernels=round(1000 * speed), wall_s=10.0, busy_s=1.0, own_s=1.0, gib=0.0)


def test_speeds_are_of_the_load_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that take turns have half each; without MPS its modes are named and left out."""
    monkeypatch.setattr(pairs, "loads", Gpu(0.5).started)
    report = Report()
    pairs.measure(here(tmp_path), report)
    found = {name: one["value"] for name, one in report.figures().items()}
    assert found["alone_compute"] == 100.0
    assert (found["turns_copy_beside_small"], found["turns_gaps_beside_gaps"]) == (0.5, 0.5)
    assert found["turns_work_of_a_pair"] == 1.0
    assert found["turns_bound_held_pair"] == 1.0
    assert found["turns_error_completed"] < 0.05 < found["turns_error_prior"]
    assert report.absent == dict.fromkeys(("mps", "mps_half"), "the device is the CPU")


def test_a_bound_that_does_not_hold_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pairs far slower than jobs in general fall below the bound of who knows nothing."""
    monkeypatch.setattr(pairs, "loads", Gpu(0.05).started)
    report = Report()
    pairs.measure(here(tmp_path), report)
    assert report.figures()["turns_bound_held_prior"]["value"] == 0.0


def test_loads_are_shorter_where_the_row_has_less_time() -> None:
    """Every mode has its start and three repeats of fourteen loads; a load is 0.2 s at least."""
    assert pairs._span_s(0.0) == 0.2
    assert pairs._span_s(3 * (9.0 + 42 * 0.3)) == pytest.approx(0.3)
    assert pairs._span_s(1000.0) == 0.4


def test_loads_under_mps_have_a_jobs_environment(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch, only_mps: None
) -> None:
    """The daemon's pipe and GPU; with limits, half of its threads and memory."""
    monkeypatch.setattr(mps_daemon, "TALK_S", 6.0)
    monkeypatch.setattr(mps_jobs, "BUDGET_S", 60.0)
    gpu = Gpu(0.8)
    monkeypatch.setattr(pairs, "loads", gpu.started)
    control = install(short_folder / "bin", [f"{UUID}, 81559, Disabled, Default"])
    report = Report()
    pairs.measure(here(short_folder, device="cuda", control=str(control)), report)
    assert report.absent == {}
    turns, whole, half = gpu.environments
    assert turns == {}
    assert whole.keys() == {
        "CUDA_MPS_PIPE_DIRECTORY",
        "CUDA_MPS_LOG_DIRECTORY",
        "CUDA_VISIBLE_DEVICES",
    }
    assert half["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "50"
    assert half["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"].startswith("0=")
    assert report.figures()["mps_alone_copy"]["value"] == 1.0
    assert report.figures()["mps_half_bound_held_completed"]["value"] == 1.0
