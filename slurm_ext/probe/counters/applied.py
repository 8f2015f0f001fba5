"""Steps that a program's own loop makes with an optimiser of Keras.

Outside of a graph each `apply` is a step. A function of TensorFlow's applies but once, while it is
traced: from then on each of its calls is a step, unless it applied within a loop of the graph,
where nobody can tell how often. Steps of Keras's fits are told by their callbacks (frameworks.py).
"""

from __future__ import annotations

import functools
import sys
import threading
import time
import weakref
from typing import Any, Callable

from . import frameworks

Tell = Callable[[Any, float], None]


class _Calls(threading.local):
    """Functions of TensorFlow that this thread is in, the outermost first."""

    def __init__(self) -> None:
        self.under_way: list[Any] = []


_calls = _Calls()
_stepping: weakref.WeakSet[Any] = weakref.WeakSet()  # functions whose calls are steps


def follow_applies(module: Any, count: Tell) -> None:
    """Call `count(optimiser, now)` at steps by hand; `module` holds the class of optimisers."""
    kind: Any = module.BaseOptimizer
    original = kind.apply

    @functools.wraps(original)
    def apply(self: Any, *args: Any, **named: Any) -> Any:
        result = original(self, *args, **named)
        try:  # noqa: SIM105 - contextlib.suppress takes longer than what it protects
            _applied(self, count)
        except Exception:  # noqa: S110 - the step is done all the same
            pass
        return result

    kind.apply = apply


def follow_calls(module: Any, begin: Tell, count: Tell) -> None:
    """Call `count(function, now)` at each call that makes a step, `begin` before the first one.

    `module` has the functions' class. The first call takes long: it is traced and compiled.
    """
    kind: Any = module.Function
    original = kind.__call__

    @functools.wraps(original)
    def __call__(self: Any, *args: Any, **named: Any) -> Any:  # noqa: N807 - in that one's place
        under_way = _calls.under_way
        known, began = self in _stepping, time.perf_counter()
        under_way.append(self)
        try:
            result = original(self, *args, **named)
        finally:
            under_way.pop()
        try:
            if not under_way and self in _stepping:
                if not known:
                    begin(self, began)
                count(self, time.perf_counter())
        except Exception:  # noqa: S110 - as above
            pass
        return result

    kind.__call__ = __call__


def _applied(optimiser: Any, count: Tell) -> None:
    if frameworks.fitting():
        return
    if not _in_a_trace():
        count(optimiser, time.perf_counter())
    elif _calls.under_way and not _in_a_loop():
        _stepping.add(_calls.under_way[0])


def _in_a_trace() -> bool:
    """True while a step is written down to be compiled, instead of made."""
    scope = sys.modules.get("keras.src.backend.common.stateless_scope")  # JAX's
    tensorflow, torch = sys.modules.get("tensorflow"), sys.modules.get("torch")
    return bool(
        (scope is not None and scope.in_stateless_scope())
        or (tensorflow is not None and not tensorflow.executing_eagerly())
        or (torch is not None and torch.compiler.is_compiling())
    )


def _in_a_loop() -> bool:
    graph = sys.modules["tensorflow"].compat.v1.get_default_graph()
    while graph is not None:
        if "While" in type(graph).__name__:
            return True
        graph = getattr(graph, "outer_graph", None)
    return False
