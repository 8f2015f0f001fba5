"""Steps of optimisers are a clock, without the evaluations between them."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from slurm_ext.probe.counters import steps
from slurm_ext.probe.counters.models import Models
from slurm_ext.probe.counters.steps import StepClock
from tests.probe.conftest import Environment, Python


class Optimiser:
    """Steps parameters, some of a model that others train too."""

    def __init__(self, *parameters: torch.Tensor) -> None:
        self.param_groups = [{"params": [*parameters]}]


def test_the_busiest_optimizer_is_the_clock() -> None:
    """A generator stepped once for five steps of its critic."""
    clock, generator, critic = StepClock(), Optimiser(), Optimiser()
    assert clock.row() is None
    for second in range(10):
        clock.count(critic, float(second))
    clock.count(generator, 9.5)
    assert clock.row() == {"steps": 10, "wall_s": 9.0}
    assert clock.total == 11


def evaluated(between: int, *, steps: int = 0, begun: bool = False) -> float:
    """Seconds of a clock with a step each second, and 100 s of evaluation after so many steps."""
    clock, optimiser, now = StepClock(), Optimiser(), 0.0
    for _ in range(4):
        for _ in range(between):
            now += 1.0
            clock.count(optimiser, now)
        clock.turn(False, now)
        for _ in range(steps):
            clock.count(optimiser, now)
        if not steps:
            clock.turn(False, now + 50)
        now += 100.0
        if begun:
            clock.begin(optimiser, now)
        clock.turn(True, now)
    clock.count(optimiser, now + 1.0)
    row = clock.row()
    assert row is not None
    assert row["steps"] == 4 * (between + steps) + 1
    return row["wall_s"]


def test_a_validation_without_a_loader_is_left_out() -> None:
    """From a module's `eval()` to its `train()`, if no step was made; Keras's epochs tell it."""
    assert evaluated(20) == 80.0
    assert evaluated(20, begun=True) == 80.0


def test_evaluation_that_belongs_to_the_steps_is_in_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Labels made in evaluation mode for each step, layers that stay in it, a game's moves."""
    assert evaluated(3) == 412.0
    assert evaluated(20, steps=1) == 480.0
    monkeypatch.setitem(sys.modules, "gymnasium", SimpleNamespace())
    assert evaluated(20) == 480.0


def test_torchs_modules_tell_their_mode(
    environment: Environment, python: Python, tmp_path: Path
) -> None:
    """A training by hand, evaluated twice for half a second: its steps' time is without them."""
    code = (
        "import time, torch; n = torch.nn.Linear(2, 1); o = torch.optim.SGD(n.parameters(), 0.1)\n"
        "began = time.perf_counter()\n"
        "for i in range(61):\n"
        "  n(torch.zeros(2)).backward(); o.step(); time.sleep(0.005)\n"
        "  if i % 20 == 19: assert n.eval() is n; time.sleep(0.5); assert n.train() is n\n"
        "print(time.perf_counter() - began)"
    )
    done = python(["-c", code], environment(tmp_path / "run"))
    assert (done.returncode, done.stderr) == (0, "")
    (path,) = (tmp_path / "run").glob("summary-*.json")
    clock = json.loads(path.read_text())["optimizer"]
    assert clock["steps"] == 61
    assert clock["wall_s"] <= float(done.stdout) - 1.5


def test_optimizers_without_end_cost_no_memory() -> None:
    """A search that makes an optimiser for each trial: the first sixteen are told apart."""
    clock, optimisers = StepClock(), [Optimiser() for _ in range(40)]
    for optimiser in optimisers:
        clock.count(optimiser, 1.0)
    clock.count(optimisers[3], 2.0)
    assert clock.row() == {"steps": 2, "wall_s": 1.0}
    assert len(clock._of) == 16


def test_optimizers_that_take_turns_are_one_clock() -> None:
    """Layers that train one after the other: all steps are told, unless loaders feed them.

    Inner loops, shorter than what goes on around them, are left out.
    """
    clock, around, layers = StepClock(), Optimiser(), [Optimiser() for _ in range(3)]
    now = 0.0
    for seconds, layer in enumerate(layers, 1):
        for _ in range(21):
            now += seconds
            clock.count(layer, now)
    assert clock.row() == {"steps": 63, "wall_s": 20.0 + 2 + 40 + 3 + 60}
    assert clock.row(batches=63) == {"steps": 21, "wall_s": 20.0}
    for _ in range(30):
        now += 2.0
        clock.count(around, now)
        clock.count(Optimiser(), now + 1.0)
    row = clock.row()
    assert row is not None
    assert row["steps"] == 63 + 30


def test_optimizers_that_are_gone_stay_in_turn() -> None:
    """Forty trials, of which sixteen are told apart at a time."""
    clock = StepClock()
    for trial in range(40):
        optimiser = Optimiser()
        for step in range(20):
            clock.count(optimiser, 20.0 * trial + step)
    row = clock.row()
    assert row is not None
    assert row["steps"] == 800
    assert row["wall_s"] == pytest.approx(799.0)
    assert clock.row(batches=800) == {"steps": 20, "wall_s": 19.0}


def test_a_torch_that_cannot_tell_compiling_is_not_listened_to() -> None:
    """Before 2.1, a hook could be traced into the user's compiled step."""
    heard: list[Any] = []
    module = SimpleNamespace(register_optimizer_step_post_hook=heard.append)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "torch", SimpleNamespace(__version__="2.0.1+cu117"))
        steps.hook(module, lambda *_: None)
        assert heard == []
        patch.setitem(sys.modules, "torch", SimpleNamespace(__version__="2.1.0"))
        steps.hook(module, lambda *_: None)
    assert len(heard) == 1


def test_an_optimizer_that_reuses_a_dead_ones_id_is_another() -> None:
    """Two folds of ten steps are no clock of twenty; the busier one is told."""
    clock = StepClock()
    for count in (10, 12, 3):
        optimiser = Optimiser(torch.zeros(1))
        for second in range(count):
            clock.count(optimiser, 100.0 * count + second)
        del optimiser
    assert clock.row() == {"steps": 12, "wall_s": 11.0}


def test_optimizers_with_a_parameter_in_common_train_one_model() -> None:
    """A second one for the layers that were frozen; another model's are others."""
    head, body, other = torch.zeros(2), torch.zeros(3), torch.zeros(2)
    models = Models()
    assert models.number(Optimiser(head)) == models.number(Optimiser(body, head)) == 1
    assert models.number(Optimiser(other)) == 2
    assert models.number(Optimiser(body)) == 1


WHOLE_GRAPH = """
import torch
class Student(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.teacher, self.own = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    def forward(self, x):
        self.teacher.eval()
        return self.own(x) - self.teacher(x)
model = torch.compile(Student(), fullgraph=True, backend="eager")
print(tuple(model(torch.zeros(3, 2)).shape))
"""


def test_a_compiled_forward_may_change_a_modules_mode(
    environment: Environment, python: Python, tmp_path: Path
) -> None:
    """With fullgraph=True a call that dynamo cannot trace would end the program."""
    done = python(["-c", WHOLE_GRAPH], environment(tmp_path / "run"))
    assert (done.returncode, done.stdout) == (0, "(3, 2)\n"), done.stderr
