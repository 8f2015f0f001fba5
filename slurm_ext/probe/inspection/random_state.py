"""State of the global random generators, to see whether a fetch drew, and to undo that it did."""

from __future__ import annotations

import random
import sys
from typing import Any


def random_state() -> tuple[Any, ...]:
    """The state of the global generators of Python, torch and, where it is loaded, numpy."""
    torch, numpy = sys.modules["torch"], sys.modules.get("numpy.random")
    theirs: Any = ()
    if numpy is not None:
        kind, keys, *rest = numpy.get_state()
        theirs = (kind, keys.tobytes(), *rest)
    return (random.getstate(), theirs, torch.get_rng_state())


def set_random_state(state: tuple[Any, ...]) -> None:
    """Take up a `random_state` again; a numpy that came later keeps its own."""
    ours, theirs, torchs = state
    random.setstate(ours)
    if theirs:
        numpy = sys.modules["numpy"]
        kind, keys, *rest = theirs
        numpy.random.set_state((kind, numpy.frombuffer(keys, numpy.uint32), *rest))
    sys.modules["torch"].set_rng_state(torchs)


def same_state(before: Any, after: Any) -> bool:
    """True if no random number was drawn between two `random_state()`s."""
    torch = sys.modules["torch"]
    return bool(before[:2] == after[:2] and torch.equal(before[2], after[2]))
