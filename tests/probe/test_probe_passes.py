"""Passes of a training's loader that are no training, wholly or in part; ends of children."""

import json
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from slurm_ext.core.findings.strands import total
from slurm_ext.core.trainings import trainings
from slurm_ext.probe.counters import backward
from slurm_ext.probe.counters.steps import StepClock
from slurm_ext.probe.counters.turns import Turns
from slurm_ext.probe.passes.loader_meter import LoaderMeter
from slurm_ext.probe.passes.meters import Meters
from slurm_ext.probe.passes.one_pass import Pass
from tests.probe.conftest import Environment, Python

FACTS = {"dataset": "Data", "style": "map", "batch_size": 8, "length": 800, "user_num_workers": 0}
WEIGHT = torch.nn.Parameter(torch.zeros(1))


class Sampled:
    """Stands for the iterator of a pass."""


def meter_of(owner: Any) -> LoaderMeter:
    """The meter of a loader without workers."""
    meter = Meters(None, "/nowhere").new(owner, {**FACTS, "persistent": False}, 800)
    assert meter is not None
    return meter


def made(meter: LoaderMeter, batches: int, stepped: range, after: int = 0) -> None:
    """One pass, a second for each batch and two for its step, and steps after its end."""
    turns, iterator = Turns(StepClock()), Sampled()
    optimiser = torch.optim.SGD([WEIGHT])
    current = Pass(iterator, meter)
    meter.started(0.5, 0)
    meter.begin(current)
    for number in range(batches + 1):
        turns.to(current, 3.0 * number)
        current.step_s += 2.0 if number else 0.0
        current.wait_s += 1.0
        current.batches += number < batches
        if number in stepped:
            turns.count(optimiser, 3.0 * number + 2)
    turns.credit()
    current.evaluates = not stepped
    meter.end(current)
    for number in range(after):
        turns.count(optimiser, 100.0 + number)
    turns.credit()


def phases_of(meter: LoaderMeter, *names: str) -> list[tuple[Any, ...]]:
    """These figures of each of the summary's phases."""
    return [tuple(row[name] for name in ("phase", *names)) for row in meter.row()["phases"]]


def test_what_is_read_without_a_step_is_no_part_of_the_training() -> None:
    """Statistics first, and the accuracy on the training's data after each of two epochs."""
    owner = Sampled()
    meter = meter_of(owner)
    for stepped in (0, 20, 0, 20, 0):
        made(meter, 20, range(stepped))
    assert phases_of(meter, "batches", "steps", "epochs") == [
        ("first_epoch", 20, 0, 1),
        ("later", 40, 0, 2),
        ("first_epoch", 20, 20, 1),
        ("later", 20, 20, 1),
    ]
    row = meter.row()
    assert (total(row, "samples"), row["startup_s"]) == (320.0, 1.0)


def test_a_loader_without_any_step_keeps_all_its_passes() -> None:
    """A torch that cannot tell steps, weights moved by hand, a validation."""
    owner = Sampled()
    meter = meter_of(owner)
    for _ in range(3):
        made(meter, 20, range(0))
    assert phases_of(meter, "batches") == [("first_epoch", 20), ("later", 40)]
    assert meter.row()["startup_s"] == 1.5


def test_the_first_start_is_told_with_what_the_probe_looked_at_before() -> None:
    """Two passes: 0.25 s of looking, then 0.5 s each; persistent workers start once for both."""
    meter = meter_of(Sampled())
    for looked_s in (0.25, 0.1):
        meter.starts.begin(looked_s)
        made(meter, 20, range(20))
    assert meter.row()["first_startup_s"] == 0.75
    meter.starts.lasting = True
    assert meter.row()["first_startup_s"] is None


@pytest.mark.parametrize(
    ("first", "every", "left"), [(15, 1, 15), (16, 4, 13), (3, 1, 0), (7, 8, 0)]
)
def test_batches_that_a_resumed_run_passes_over_are_left_out(
    first: int, every: int, left: int
) -> None:
    """Forty batches, a step at the first one that is not passed over and at each `every`th.

    Gradients that are added up for the first step, and a few batches that are left out while
    GradScaler finds its scale, are a part of the training.
    """
    owner = Sampled()
    meter = meter_of(owner)
    made(meter, 40, range(first, 40, every))
    rows = phases_of(meter, "batches", "samples", "wait_s", "epochs")
    assert rows[-1] == ("first_epoch", 40 - left, 8 * (40 - left), pytest.approx(41 - left), 1)
    assert rows[:-1] == ([("first_epoch", left, 8 * left, pytest.approx(left), 0)] if left else [])
    walls = sum(wall for _, wall in phases_of(meter, "wall_s"))
    assert walls == pytest.approx(41 + 80)


def test_a_pass_evaluates_before_the_first_step_and_in_evaluation_mode() -> None:
    """What is read between, without a step, may be trained on by a graph that nobody sees."""
    clock, found = StepClock(), []
    for act in (
        lambda: clock.count(torch.optim.SGD([WEIGHT]), 1.0),
        lambda: clock.turn(False, 2.0),
    ):
        found.append(clock.idle())
        act()
    clock.turn(True, 3.0)
    assert [*found, clock.idle()] == [True, False, False]


def test_a_step_that_waits_for_the_whole_epoch_makes_it_a_training() -> None:
    """Gradient descent on all data; of more such steps one is the loader's: it was read once."""
    for after in (1, 50):
        owner = Sampled()
        meter = meter_of(owner)
        for _ in range(3):
            made(meter, 20, range(0), after)
        made(meter, 20, range(0))
        assert phases_of(meter, "batches", "steps") == [
            ("first_epoch", 20, 0),
            ("first_epoch", 20, 1),
            ("later", 40, 2),
        ]


def test_a_validation_without_a_loader_is_no_part_of_the_step() -> None:
    """Two hundred seconds of it within the step of the twentieth batch; a step is a second."""
    owner, turns = Sampled(), Turns(StepClock())
    meter, optimiser = meter_of(owner), torch.optim.SGD([WEIGHT])
    current = Pass(owner, meter)
    meter.begin(current)
    now = 0.0
    for number in range(31):
        turns.to(current, now)
        current.step_s += now - current.last if current.last else 0.0
        now += 1.0
        current.last = now
        current.batches += 1
        if number == 20:
            turns.turn(False, now)
            now += 200.0
            turns.turn(True, now)
        now += 1.0
        turns.count(optimiser, now)
    turns.credit()
    assert current.totals()["step_s"] == 31.0


def test_steps_on_batches_that_were_kept_are_no_loaders() -> None:
    """Twenty batches were read once, and 160 steps made of them: its rate is not the job's."""
    phase = {"phase": "first_epoch", "samples": 320, "batches": 20, "epochs": 1, "wall_s": 1.0}
    for counted, found in ((1, 0), (20, 0), (150, 1)):
        summary = {
            "loaders": [{"phases": [{**phase, "steps": counted}], "startup_s": 0.0}],
            "optimizer": {"steps": 160, "wall_s": 8.0},
        }
        assert len(list(trainings([summary]))) == found


CHILD = """
import multiprocessing, sys, torch

def trained(count):
    weight = torch.nn.Parameter(torch.zeros(2))
    optimiser = torch.optim.SGD([weight], lr=0.1)
    for _ in range(count):
        weight.sum().backward()
        optimiser.step()

if __name__ == "__main__":
    child = multiprocessing.get_context("fork").Process(target=trained, args=(37,))
    child.start()
    child.join()
    sys.exit(child.exitcode)
"""

BY_HAND = """
import torch
from torch.utils.checkpoint import checkpoint

weight = torch.nn.Parameter(torch.ones(2, 2))
for _ in range(29):
    loss = checkpoint(lambda x: (x @ weight).tanh(), torch.ones(1, 2, requires_grad=True),
                      use_reentrant=True).sum()
    loss.backward()
    with torch.no_grad():
        weight -= 0.1 * weight.grad
"""

IN_THREADS = """
import threading, torch

def trained():
    weight = torch.nn.Parameter(torch.ones(1))
    slow = weight * 1
    slow.register_hook(lambda _: (both.wait(60), None)[1])
    slow.sum().backward()

both = threading.Barrier(2)
threads = [threading.Thread(target=trained) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.parametrize(("program", "count"), [(CHILD, 37), (BY_HAND, 29), (IN_THREADS, 2)])
def test_every_step_of_a_short_program_is_told(
    program: str, count: int, environment: Environment, python: Python, tmp_path: Path
) -> None:
    """In a child of multiprocessing, which ends without atexit; and by backward passes alone."""
    source = tmp_path / "program.py"
    source.write_text(program)
    done = python([str(source)], environment(tmp_path / "run"))
    assert (done.returncode, done.stderr) == (0, "")
    (path,) = (tmp_path / "run").glob("summary-*.json")
    summary = json.loads(path.read_text())
    assert (summary["optimizer"]["steps"], summary["faults"]) == (count, [])
    assert summary["finished"]


COMPILED = """
import torch
from torch.utils.data import DataLoader

net = torch.nn.Linear(4, 1)
optimiser = torch.optim.SGD(net.parameters(), lr=0.1)

@torch.compile(backend="eager")
def step(x):
    net(x).sum().backward()
    optimiser.step()

for _ in range(3):
    for x in DataLoader(torch.ones(96, 4), batch_size=8):
        step(x)
    for x in DataLoader(torch.ones(96, 4), batch_size=16):
        net(x)
"""


def test_compiled_steps_are_those_of_their_batches(
    environment: Environment, python: Python, tmp_path: Path
) -> None:
    """An optimiser within a graph tells nobody of its steps: all count but that which compiles."""
    done = python(["-c", COMPILED], environment(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "run").glob("summary-*.json")
    summary = json.loads(path.read_text())
    assert [total(loader, "steps") for loader in summary["loaders"]] == [35, 0]
    assert (summary["optimizer"]["steps"], summary["faults"]) == (35, [])


def test_a_loop_that_counts_its_batches_has_its_last_step_whole() -> None:
    """It asks for no batch after the last one, whose step goes on when the optimiser is done."""
    owner, turns = Sampled(), Turns(StepClock())
    meter, optimiser = meter_of(owner), torch.optim.SGD([WEIGHT])
    current = Pass(owner, meter)
    meter.begin(current)
    for number in range(10):
        turns.to(current, 3.0 * number)
        current.step_s += 2.0 if number else 0.0
        current.last = 3.0 * number + 1
        current.wait_s += 1.0
        current.batches += 1
        turns.count(optimiser, 3.0 * number + 1.5)
    turns.credit()
    assert current.totals()["wall_s"] == 30.0


def test_steps_on_what_a_thread_read_ahead_are_in_its_time() -> None:
    """Four of ten batches wait in a queue when the reader's pass ends, for a second each."""
    owner, turns = Sampled(), Turns(StepClock())
    meter, optimiser = meter_of(owner), torch.optim.SGD([WEIGHT])
    current = Pass(owner, meter)
    meter.begin(current)

    def step_at(*times: float) -> None:
        for at in times:
            turns.count(optimiser, at)

    for number in range(11):
        turns.to(current, 0.6 * number)
        current.wait_s += 0.6 if number else 0.0
        current.batches += number < 10
    reader = Thread(target=step_at, args=range(1, 7))
    reader.start()
    reader.join()
    turns.credit()
    current.last, current.over, current.ended_at = 0.0, True, 6.0
    meter.end(current)
    late = Thread(target=step_at, args=range(7, 11))
    late.start()
    late.join()
    turns.credit()
    assert total(meter.row(), "wall_s") == pytest.approx(6.0 + 4 * 0.6)


def test_a_backward_pass_that_fails_is_none() -> None:
    """Its error is the program's own, and the next pass counts."""
    told: list[float] = []
    module = SimpleNamespace(backward=divmod)
    backward.follow_passes(module, told.append)
    with pytest.raises(ZeroDivisionError):
        module.backward(1, 0)
    assert told == []
    assert module.backward(7, 2) == (3, 1)
    assert len(told) == 1
