"""What real counters read, on the machines that each file of data/perf names."""

import json
import os
from pathlib import Path

import pytest

from slurm_ext.node.counters.perf.job_counters import JobPerf
from slurm_ext.node.kernel.processes import JobProcesses
from slurm_ext.node.kernel.readings import scaled
from tests.node.made_up_kernel import MadeUp, counted

CAPTURED = sorted((Path(__file__).parents[2] / "data" / "perf").glob("*.json"))


@pytest.mark.parametrize("path", CAPTURED, ids=lambda path: path.stem)
@pytest.mark.parametrize("which", ["few", "many"])
def test_real_readings_give_totals_that_only_rise(path: Path, which: str) -> None:
    """Alone on their counters as multiplexed; the share of the time counted says which it was."""
    captured = json.loads(path.read_text())[which]
    me = JobProcesses(1, os.getuid(), "n1")
    me.update([os.getpid()], switches=False)
    readings = {each["label"]: each["readings"] for each in captured.values()}
    kernel = MadeUp(dict.fromkeys(readings, (0, 0, 0)))
    perf, before = JobPerf({}, kernel, duty=1.0), dict[str, float]()
    for step in range(len(next(iter(readings.values())))):
        kernel.readings.update({label: tuple(each[step]) for label, each in readings.items()})
        now = counted(perf, me)
        share = now.pop("perf_running_share")
        assert all(now[name] >= value for name, value in before.items() if name in now)
        before = now
    assert (share == 1.0) == (which == "few")
    assert 0 < share <= 1.0


@pytest.mark.parametrize("path", CAPTURED, ids=lambda path: path.stem)
def test_a_multiplexed_estimate_is_near_what_was_counted_whole(path: Path) -> None:
    """Two programs alike, one on its own counters: instructions a second within a third."""
    captured = json.loads(path.read_text())
    rates = []
    for which in ("few", "many"):
        value, enabled, running = captured[which]["perf_instructions"]["readings"][-1]
        whole = scaled(value, enabled, running)
        assert whole is not None
        rates.append(whole / enabled)
    assert rates[1] == pytest.approx(rates[0], rel=0.33)
