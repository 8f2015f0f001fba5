"""A hook on all optimisers' steps that no pickle carries.

A pickle by value of an optimiser's class, such as cloudpickle and dill make of a program's own, has
the global dictionary of hooks in it, and is loaded where nobody has the probe.
"""

from __future__ import annotations

import collections
import itertools
from typing import Any, Callable

_HOOKS = "_global_optimizer_post_hooks"  # torch's


def add(module: Any, after_step: Callable[..., None]) -> None:
    """Call `after_step(optimiser, ...)` after each step; `module` is torch.optim.optimizer."""
    if type(getattr(module, _HOOKS, None)) is collections.OrderedDict:
        setattr(module, _HOOKS, _with(after_step)(getattr(module, _HOOKS)))
    else:  # a torch that keeps them otherwise
        module.register_optimizer_step_post_hook(after_step)


def _with(after_step: Callable[..., None]) -> Any:
    class Hooks(collections.OrderedDict):  # type: ignore[type-arg]  # not before Python 3.9
        def values(self) -> Any:
            return itertools.chain(super().values(), (after_step,))

        def __reduce_ex__(self, protocol: Any) -> Any:
            return collections.OrderedDict(self).__reduce_ex__(protocol)

    return Hooks
