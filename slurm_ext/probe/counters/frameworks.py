"""Steps as other frameworks than torch tell them, without a change to what they compute.

Keras tells each step of a `fit` to its list of callbacks, whatever computes it (JAX, TensorFlow,
torch); what a program does in a loop of its own, applied.py sees. JAX has a mark that programs put
around their steps for its profiler, StepTraceAnnotation; what it compiles is called without a word
to Python, and stays as it is.
"""

from __future__ import annotations

import functools
import time
import weakref
from typing import Any, Callable

_MOST_STEPS = 10_000  # in one call: Keras may make several before it tells
_LATEST = "_dlqueue_batch"  # the number of the latest batch that a list was told, from 0
_MOST_NAMES = 16
_known: set[type] = set()  # lists of callbacks that are followed
_under_way: weakref.WeakSet[Any] = weakref.WeakSet()  # those of fits within an epoch

Tell = Callable[[Any, float], None]


def follow_fits(module: Any, begin: Tell, count: Tell) -> None:
    """Call `begin(model, now)` and `count(model, now)` at each epoch and step of Keras's fits."""
    kind = vars(module).get("CallbackList")
    if not isinstance(kind, type) or kind in _known:  # an older module's name for a newer's
        return
    _known.add(kind)

    def begins(callbacks: Any, _epoch: Any) -> None:
        callbacks.__dict__[_LATEST] = -1
        begin(_model(callbacks), time.perf_counter())
        _under_way.add(callbacks)

    def ends(callbacks: Any, batch: Any) -> None:
        now = time.perf_counter()
        steps = int(batch) - callbacks.__dict__.get(_LATEST, -1)
        callbacks.__dict__[_LATEST] = int(batch)
        for _ in range(max(1, min(steps, _MOST_STEPS))):
            count(_model(callbacks), now)

    changed: Any = kind
    changed.on_epoch_begin = _told(changed.on_epoch_begin, begins)
    changed.on_epoch_end = _told(changed.on_epoch_end, lambda one, _: _under_way.discard(one))
    changed.on_train_batch_end = _told(changed.on_train_batch_end, ends)


def fitting() -> bool:
    """True within an epoch of a fit, whose steps its callbacks tell."""
    return len(_under_way) > 0


def _told(original: Callable[..., Any], tell: Callable[[Any, Any], None]) -> Callable[..., Any]:
    """The list's method, which does what it did, and then tells which epoch or batch it was."""

    @functools.wraps(original)
    def method(self: Any, *args: Any, **named: Any) -> Any:
        result = original(self, *args, **named)
        try:  # noqa: SIM105 - contextlib.suppress takes longer than what it protects
            tell(self, args[0] if args else named.get("epoch", named.get("batch")))
        except Exception:  # noqa: S110 - the step is done all the same
            pass
        return result

    return method


def _model(callbacks: Any) -> Any:
    told = callbacks.__dict__
    model = told.get("_model", told.get("model"))
    return callbacks if model is None else model


class _Named:
    """Steps that a program calls by this name."""


def follow_marks(module: Any, count: Tell) -> None:
    """Call `count(owner, now)` at each of JAX's marks around a step; each name has an owner."""
    names: dict[Any, _Named] = {}
    kind = module.StepTraceAnnotation
    original = kind.__init__

    @functools.wraps(original)
    def __init__(self: Any, name: Any, **named: Any) -> None:  # noqa: N807 - that method's place
        original(self, name, **named)
        try:
            if name in names or len(names) < _MOST_NAMES:
                count(names.setdefault(name, _Named()), time.perf_counter())
        except Exception:  # noqa: S110 - as above
            pass

    kind.__init__ = __init__
