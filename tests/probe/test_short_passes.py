"""Passes that are over before workers are there pay for none, and for no look at memory."""

import json
import time
from itertools import pairwise
from pathlib import Path

import pytest

from slurm_ext.probe import gates
from slurm_ext.probe.counters import machine
from slurm_ext.probe.directive import Directive
from slurm_ext.probe.gates import Gates
from slurm_ext.probe.passes.starts import Starts
from tests.probe.conftest import Environment, Python

QUICK = """
import time, torch
from torch.utils.data import DataLoader
net = torch.nn.Linear(4, 1)
optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
steps = 0
began = time.perf_counter()
while steps < 400 or time.perf_counter() < began + 5:
    for x in DataLoader(torch.ones(80, 4), batch_size=10):
        net(x).sum().backward()
        optimiser.step()
        steps += 1
print(steps)
"""


def passes(*fetch_s: float, start_s: float = 1, lasting: bool = False, whole: bool = True) -> bool:
    """Whether workers lose after passes that waited 0.1 s more, and fetched for so long."""
    starts = Starts(lasting=lasting)
    for one in fetch_s:
        starts.begin(0.0)
        starts.add(start_s, 2)
        starts.ended(wait_s=0.1, step_s=1.0, fetch_s=one, whole=whole)
    return starts.loses()


def test_workers_lose_where_fetching_is_over_sooner_than_they_start() -> None:
    """Two seconds are lost in a row by three passes, as one or two may meet a busy machine."""
    assert passes(0.05, 0.05, 0.05)
    assert not passes(0.05, 0.05, 0.05, start_s=0.1)
    assert not passes(0.05, 0.05, start_s=9)
    assert not passes(0.05, 0.05, 0.6, 0.05)


def test_workers_that_last_start_once_for_all() -> None:
    """And a pass that its loop left is no whole one, such as a check before the training."""
    assert not passes(0.05, 0.05, 0.05, lasting=True)
    assert not passes(0.05, 0.05, 0.05, whole=False)


def test_a_loader_of_quick_passes_stays_as_written(
    environment: Environment, python: Python, tmp_path: Path
) -> None:
    """Each pass of eight quick batches would start both workers; after 2 s of that none does."""
    done = python(["-c", QUICK], environment(tmp_path / "run", DLQUEUE_NUM_WORKERS="2"))
    assert (done.returncode, done.stderr) == (0, "")
    (path,) = (tmp_path / "run").glob("summary-*.json")
    summary = json.loads(path.read_text())
    assert {loader["left_alone"] for loader in summary["loaders"]} == {gates.SHORT}
    assert (summary["optimizer"]["steps"], summary["faults"]) == (int(done.stdout), [])


def test_memory_is_asked_for_a_twentieth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel goes through all pages of a large process at each look; passes may take less."""
    asked: list[float] = []
    clock = [0.0]

    def looked() -> int:
        asked.append(clock[0])
        clock[0] += 0.01
        return 5

    monkeypatch.setattr(machine, "private_bytes", looked)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    made = Gates(object(), Directive())
    for _ in range(100):
        clock[0] += 0.03
        assert made._private() == 5
    assert min(b - a for a, b in pairwise(asked)) >= 20 * 0.01
    assert len(asked) > 10
