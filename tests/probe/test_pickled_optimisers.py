"""A pickle that a watched program makes of its optimisers is loaded where nobody has the probe."""

import collections
import pickle
from types import SimpleNamespace
from typing import Any

from slurm_ext.probe.counters import step_hooks
from tests.probe.conftest import Environment, Python

WATCHED = """
import pickle, torch
from torch.optim import optimizer
assert optimizer._global_optimizer_post_hooks.values  # torch is as this test takes it to be
print(b"dlqueue" in pickle.dumps(optimizer._global_optimizer_post_hooks))
print(type(optimizer._global_optimizer_post_hooks).__mro__[1].__name__)
print("torch" in optimizer.Optimizer.__init__.__code__.co_filename)
handle = optimizer.register_optimizer_step_post_hook(lambda *_: print("stepped"))
net = torch.nn.Linear(1, 1)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
sgd.step()
handle.remove()
sgd.step()
"""


def module() -> Any:
    """A stand-in for torch.optim.optimizer."""
    return SimpleNamespace(_global_optimizer_post_hooks=collections.OrderedDict({1: print}))


def test_the_hook_is_no_part_of_a_pickle() -> None:
    """Pickles by value put all global hooks into a pickle of a program's own optimiser."""
    before, hooked, asked = module(), module(), list[Any]()
    step_hooks.add(hooked, lambda *args: asked.append(args))
    hooks = hooked._global_optimizer_post_hooks
    assert pickle.dumps(hooks) == pickle.dumps(before._global_optimizer_post_hooks)
    *others, ours = hooks.values()
    ours("optimiser", (), {})
    assert (others, asked) == ([print], [("optimiser", (), {})])


def test_a_torch_that_keeps_its_hooks_otherwise_is_asked() -> None:
    """There the hook is registered as anybody's is."""
    registered: list[Any] = []
    other = SimpleNamespace(register_optimizer_step_post_hook=registered.append)
    step_hooks.add(other, print)
    assert registered == [print]


def test_torchs_own_optimisers_stay_as_they_are(
    environment: Environment, python: Python, tmp_path: Any
) -> None:
    """Its class has its own maker, hooks of the program come and go, and nothing names dlqueue."""
    done = python(["-c", WATCHED], environment(tmp_path / "run"))
    assert (done.stdout.split(), done.stderr) == (["False", "OrderedDict", "True", "stepped"], "")
