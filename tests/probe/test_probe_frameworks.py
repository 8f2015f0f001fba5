"""Steps of frameworks other than torch, told by small packages under their names.

The real ones run in contrib/bench/foreign.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.node.record.summaries import parse_summary
from tests.probe.conftest import Environment, Python

PACKAGES = {
    "keras/__init__.py": "",
    "keras/callbacks.py": "from keras.src.callbacks.callback_list import CallbackList\n",
    "keras/src/__init__.py": "",
    "keras/src/callbacks/__init__.py": "from .callback_list import CallbackList\n",
    "keras/src/callbacks/callback_list.py": """
class CallbackList:
    told = []
    def __init__(self, model):
        self._model = model
    def on_epoch_begin(self, epoch, logs=None):
        self.told.append(("epoch", epoch, logs))
    def on_epoch_end(self, epoch, logs=None):
        pass
    def on_train_batch_end(self, batch, logs=None):
        self.told.append(("batch", batch, logs))
        if logs == "bad":
            raise ValueError("the user's own")
""",
    "keras/src/optimizers/__init__.py": "",
    "keras/src/optimizers/base_optimizer.py": """
class BaseOptimizer:
    def apply(self, grads, weights=None):
        if grads == "bad":
            raise ValueError("the user's own")
        return grads
""",
    "tensorflow/__init__.py": """
import types
import tensorflow.python.eager.polymorphic_function.polymorphic_function as functions
graphs = []
def executing_eagerly():
    return not graphs
def get_default_graph():
    return graphs[-1]
compat = types.SimpleNamespace(v1=types.SimpleNamespace(get_default_graph=get_default_graph))
""",
    "tensorflow/python/__init__.py": "",
    "tensorflow/python/eager/__init__.py": "",
    "tensorflow/python/eager/polymorphic_function/__init__.py": "",
    "tensorflow/python/eager/polymorphic_function/polymorphic_function.py": """
class FuncGraph:
    outer_graph = None
class WhileBodyFuncGraph(FuncGraph):
    pass
class Function:
    def __init__(self, code, graph=FuncGraph):
        self.code, self.graph, self.traced = code, graph, False
    def __call__(self, *args):
        import tensorflow, time
        if not self.traced:
            self.traced = True
            time.sleep(0.5)
            tensorflow.graphs.append(self.graph())
            self.code()
            tensorflow.graphs.pop()
        return args
""",
    "jax/__init__.py": "from jax._src import profiler\n",
    "jax/_src/__init__.py": "",
    "jax/_src/profiler.py": """
class StepTraceAnnotation:
    def __init__(self, name, **kwargs):
        self.name, self.kwargs = name, kwargs
""",
}
FIT = """
import keras.callbacks, time
class Model: pass
def fit(model, epochs=2, each=1):
    callbacks = keras.callbacks.CallbackList(model)
    for epoch in range(epochs):
        callbacks.on_epoch_begin(epoch)
        for batch in range(each - 1, 12, each):
            time.sleep(0.02 * each)
            callbacks.on_train_batch_end(batch, logs={"loss": 1})
        time.sleep(0.5)  # a validation
    return callbacks
"""


@pytest.fixture
def summary(environment: Environment, python: Python, tmp_path: Path) -> Any:
    """Runs a program beside the packages; returns what it printed, and its only summary."""
    for name, text in PACKAGES.items():
        file = tmp_path / "lib" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def run(program: str) -> tuple[str, dict[str, Any]]:
        env = environment(tmp_path / "run")
        env["PYTHONPATH"] += f":{tmp_path / 'lib'}"
        done = python(["-c", program], env)
        assert (done.returncode, done.stderr) == (0, "")
        (file,) = (tmp_path / "run").glob("summary-*.json")
        assert json.loads(file.read_text())["faults"] == []
        return done.stdout, parse_summary(file.read_bytes())

    return run


def test_steps_of_a_fit_are_counted_without_its_validations(summary: Any) -> None:
    """Two fits of one model, two epochs of 12 steps each: the time between epochs is left out."""
    fits = "began = time.perf_counter(); model = Model(); fit(model); fit(model)"
    said, found = summary(f"{FIT}\n{fits}\nprint(time.perf_counter() - began)\nfit(Model(), 1)")
    assert found["optimizer"]["steps"] == 48
    assert 48 * 0.02 <= found["optimizer"]["wall_s"] <= float(said) - 4 * 0.5
    assert (found["loaders"], found["torch"], found["threads"]) == ([], None, None)


def test_several_steps_told_at_once_are_counted_each(summary: Any) -> None:
    """Keras's `steps_per_execution=4` tells the fourth, eighth and twelfth batch."""
    assert summary(f"{FIT}\nfit(Model(), each=4)")[1]["optimizer"]["steps"] == 24


def test_what_the_callbacks_are_told_and_raise_stays(summary: Any) -> None:
    """Arguments arrive as they were given; an error of the user's own comes through."""
    program = (
        "callbacks = fit(Model(), 1)\n"
        "try: callbacks.on_train_batch_end('odd', 'bad')\n"
        "except ValueError as error: print(error, callbacks.told[:2], callbacks.told[-1])"
    )
    said, found = summary(f"{FIT}\n{program}")
    told = [("epoch", 0, None), ("batch", 0, {"loss": 1})]
    assert said == f"the user's own {told} ('batch', 'odd', 'bad')\n"
    assert found["optimizer"]["steps"] == 12


def test_marks_of_steps_are_counted_by_their_names(summary: Any) -> None:
    """JAX's mark for its profiler: the name with the most steps is the training."""
    program = (
        "import jax\n"
        "marks = [jax.profiler.StepTraceAnnotation('train', step_num=i) for i in range(30)]\n"
        "jax.profiler.StepTraceAnnotation('eval', step_num=1)\n"
        "print(marks[-1].name, marks[-1].kwargs)"
    )
    said, found = summary(program)
    assert said == "train {'step_num': 29}\n"
    assert found["optimizer"]["steps"] == 30


def test_a_framework_whose_steps_nobody_tells_is_named(summary: Any) -> None:
    """A jitted step runs unseen: the summary says that there is no step, and of what."""
    _, found = summary("import jax")
    assert (found["optimizer"], found["frameworks"]) == (None, ["jax"])


def test_steps_stay_counted_when_torch_comes_later(summary: Any) -> None:
    """The same process then reads a DataLoader: one summary, with its loader and all steps."""
    program = (
        "model = Model(); fit(model)\n"
        "from torch.utils.data import DataLoader\n"
        "for _ in DataLoader(range(8), batch_size=2): pass\n"
        "fit(model, 3)"
    )
    _, found = summary(f"{FIT}\n{program}")
    assert (found["optimizer"]["steps"], len(found["loaders"])) == (60, 1)


BY_HAND = """
import tensorflow
from keras.src.optimizers.base_optimizer import BaseOptimizer
from tensorflow.python.eager.polymorphic_function.polymorphic_function import *
optimizer = BaseOptimizer()
def step():
    optimizer.apply([1])
"""


def test_steps_of_a_loop_by_hand_are_counted(summary: Any) -> None:
    """Keras's optimiser applied outside of a graph; an error of the user's own comes through."""
    program = (
        "for _ in range(7): print(optimizer.apply([1, 2]))\n"
        "try: optimizer.apply('bad')\n"
        "except ValueError as error: print(error)"
    )
    said, found = summary(f"{BY_HAND}\n{program}")
    assert said == 7 * "[1, 2]\n" + "the user's own\n"
    assert (found["optimizer"]["steps"], found["loaders"]) == (7, [])


def test_calls_of_a_function_that_makes_a_step_are_counted(summary: Any) -> None:
    """Traced once and called 30 times, also within another one; others' calls are no steps.

    Half a second of tracing each function is part of the first step.
    """
    program = (
        "inner = Function(step)\n"
        "outer, other = Function(lambda: inner()), Function(lambda: None)\n"
        "for number in range(30): other(); print(outer(number))"
    )
    said, found = summary(f"{BY_HAND}\n{program}")
    assert said == "".join(f"({number},)\n" for number in range(30))
    assert found["optimizer"]["steps"] == 30
    assert found["optimizer"]["wall_s"] >= 1.0


def test_steps_in_a_loop_of_the_graph_are_not_guessed(summary: Any) -> None:
    """Nobody tells how often the graph goes round: no figure, and the framework's name."""
    program = "whole = Function(step, WhileBodyFuncGraph)\nfor _ in range(4): whole()"
    _, found = summary(f"{BY_HAND}\n{program}")
    assert (found["optimizer"], found["frameworks"]) == (None, ["keras", "tensorflow"])


def test_a_fits_own_steps_are_counted_once(summary: Any) -> None:
    """Within an epoch its callbacks tell them; a loop by hand after it is counted again."""
    fit = "callbacks = keras.callbacks.CallbackList(Model())\ncallbacks.on_epoch_begin(0)"
    told = "for batch in range(6): optimizer.apply([1]); callbacks.on_train_batch_end(batch)"
    after = "callbacks.on_epoch_end(0)\nfor _ in range(9): optimizer.apply([1])"
    _, found = summary(f"{FIT}\n{BY_HAND}\n{fit}\n{told}\n{after}")
    assert found["optimizer"]["steps"] == 9


def test_a_loop_that_names_its_arguments_is_told_as_one_that_does_not(summary: Any) -> None:
    """Keras's own signatures are kept: on_epoch_begin(epoch=0) works as without the probe."""
    fit = "callbacks = keras.callbacks.CallbackList(Model())\ncallbacks.on_epoch_begin(epoch=0)"
    told = "for number in range(6): callbacks.on_train_batch_end(batch=number, logs={})"
    _, found = summary(f"{FIT}\n{fit}\n{told}\ncallbacks.on_epoch_end(epoch=0)")
    assert found["optimizer"]["steps"] == 6
