"""Random numbers of a worker that the program pins by itself, whatever torch's seed is."""

from __future__ import annotations

import functools
import types
from typing import Any

from ..program.program_code import names_in
from .dataset_inspection import telling
from .loop_changes import walk

_SEEDING = frozenset(("seed", "manual_seed", "seed_everything", "set_seed", "default_rng"))
FROM_TORCHS = frozenset(("initial_seed", "get_worker_info"))  # other numbers in each run


def of(loader: Any) -> bool:
    """True if a worker's numbers come from a generator of the dataset's, or from its number."""
    init = loader.worker_init_fn
    names = _names(init) if init is not None else frozenset()
    if names & (_SEEDING | FROM_TORCHS):
        return not names & FROM_TORCHS
    try:
        return any(_generator(item) for item in walk(loader.dataset))
    except Exception:  # objects of another kind: as torch's own
        return False


def _names(init: Any) -> frozenset[str]:
    """The name of what a call of it runs, and those in its code if that is the program's."""
    while isinstance(init, (functools.partial, types.MethodType)):
        init = init.func if isinstance(init, functools.partial) else init.__func__
    named = frozenset((getattr(init, "__name__", ""),))
    code = init if isinstance(init, types.FunctionType) else type(init).__call__
    return named | names_in(code) if isinstance(code, types.FunctionType) else named


def _generator(item: Any) -> bool:
    version, *states = telling(item)
    del version
    return any(state is not None for state in states)
