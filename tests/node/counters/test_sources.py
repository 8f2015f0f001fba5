"""What a node can count: every source is looked at, and what is missing says why."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_ext.cli.doctor import sources as doctor_sources
from slurm_ext.core.settings.document import Settings
from slurm_ext.node.counters import sources as module
from slurm_ext.node.counters.perf.syscall import PerfEvent, PerfKernel

NAMES = {"perf events", "memory traffic", "NVML", "RAPL", "control groups", "pressure"}


def test_every_source_counts_something_or_says_why_not() -> None:
    """Asked as the hooks are started, without site-packages."""
    program = Path(module.__file__)
    done = subprocess.run([sys.executable, "-I", "-S", program], capture_output=True, check=True)
    found = {each["name"]: each for each in json.loads(done.stdout)}
    assert set(found) == NAMES
    assert all(each["counts"] or each["why"] for each in found.values())


class _Forbidding(PerfKernel):
    """A kernel that lets nobody count."""

    def open(self, event: PerfEvent, *, pid: int = -1, cpu: int = -1) -> int:
        raise PermissionError(13, "Permission denied")


def test_a_kernel_that_forbids_counting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """perf_event_paranoid is what an administrator has to change."""
    monkeypatch.setattr(module, "PerfKernel", _Forbidding)
    found = {each["name"]: each for each in module.sources()}
    assert found["perf events"]["counts"] == ""
    assert "Permission denied" in found["perf events"]["why"]
    assert "perf_event_paranoid" in found["perf events"]["why"]


def test_a_source_that_breaks_does_not_break_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is listed as one that does not count."""
    monkeypatch.setattr(module, "PowerMeter", None)
    found = {each["name"]: each for each in module.sources()}
    assert found["rapl"]["why"].startswith("TypeError")
    assert "pressure" in found


def test_doctor_asks_the_hooks_interpreter_and_else_its_own() -> None:
    """An interpreter that is not there is no reason to say nothing."""
    settings = Settings("x", {"node.python": "/nowhere/python3"})
    found = doctor_sources.sources(settings)
    assert {each["name"] for each in found} == NAMES
    assert {each["python"] for each in found} == {sys.executable}
    shown = doctor_sources.table(found)
    assert shown.row_count == len(NAMES)
