"""The end of a pass on a device that its loop runs ahead of; a clock stands in for the device."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from slurm_ext.core.trainings import trainings
from slurm_ext.probe.passes import device_tail
from slurm_ext.probe.passes.device_tail import DeviceTail
from tests.probe import programs_ahead
from tests.probe.conftest import Environment, Python
from tests.probe.programs_ahead import Device, Event


class Clock:
    """Time passes where somebody sleeps."""

    now = 1000.0

    @classmethod
    def perf_counter(cls) -> float:
        """Seconds."""
        return cls.now

    @classmethod
    def sleep(cls, seconds: float) -> None:
        """Return later."""
        cls.now += seconds


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Torch's CUDA answers by the stand-in, whose time is a number."""
    clock = SimpleNamespace(perf_counter=Clock.perf_counter, sleep=Clock.sleep)
    for module in (device_tail, programs_ahead):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(Device, "busy_until", 0.0)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    return monkeypatch


def tail(busy_s: float) -> DeviceTail:
    """A pass that left the device so much to do."""
    made = DeviceTail()
    made.begin()
    Device.compute(busy_s)
    made.end()
    return made


def test_a_rate_counts_the_time_until_the_device_is_done(
    environment: Environment, python: Python, tmp_path: Path
) -> None:
    """Of the last pass, too; without it the loop's own time is some tenth of that."""
    run_dir = tmp_path / "run"
    done = python(["-m", "tests.probe.programs_ahead"], environment(run_dir))
    assert done.returncode == 0, done.stderr
    truth = json.loads(done.stdout)
    summary = json.loads(next(run_dir.glob("summary-*.json")).read_text())
    rate: Any = next(trainings([summary])).samples_per_s
    assert rate == pytest.approx(truth["samples"] / truth["seconds"], rel=0.1)


def test_nobody_waits_for_the_device(cuda: pytest.MonkeyPatch) -> None:
    """Nothing is known before it is done, and then it stays; a pass that is closed asks no more."""
    slow, closed = tail(0.2), tail(0.2)
    closed.close()
    assert slow.seconds() == closed.seconds() == 0
    Device.synchronise()
    assert slow.seconds() == pytest.approx(0.2)
    cuda.setattr(torch.cuda, "is_initialized", lambda: False)
    assert slow.seconds() == pytest.approx(0.2)
    assert closed.seconds() == 0


def test_a_device_that_is_done_first_left_nothing(cuda: pytest.MonkeyPatch) -> None:
    """A loop that waits for each result."""
    done = DeviceTail()
    done.begin()
    Device.compute(0.01)
    Device.synchronise()
    done.end()
    assert done.seconds() == 0


def test_no_event_is_touched_while_a_graph_is_recorded(cuda: pytest.MonkeyPatch) -> None:
    """That would break the recording."""
    known, begun = tail(0.0), DeviceTail()
    cuda.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    cuda.setattr(torch.cuda, "Event", None)
    cuda.setattr(Event, "query", None)
    begun.begin()
    begun.end()
    assert known.seconds() == begun.seconds() == 0


def test_a_device_that_fails_is_the_jobs_own_matter(cuda: pytest.MonkeyPatch) -> None:
    """Its errors come out of the job's calls, not of ours."""
    failed, begun = tail(0.0), DeviceTail()

    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    cuda.setattr(Event, "query", fails)
    cuda.setattr(torch.cuda, "Event", fails)
    begun.begin()
    begun.end()
    assert failed.seconds() == begun.seconds() == 0
