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
    def on_train_batch_end(self, batch, logs=None):
        self.told.append(("batch", batch, logs))
        if logs == "bad":
            raise ValueError("the user's own")
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
