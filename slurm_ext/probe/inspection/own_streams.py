"""Random numbers of a worker that the program pins by itself, whatever torch's seed is."""

from __future__ import annotations

import types
from typing import Any

from ..program.program_code import names_in
from .dataset_inspection import telling
from .loop_changes import walk

_SEEDING = frozenset(("seed", "manual_seed", "seed_everything", "set_seed", "default_rng"))
_FROM_TORCHS = frozenset(("initial_seed", "get_worker_info"))  # other numbers in each run


def of(loader: Any) -> bool:
    """True if a worker's numbers come from a generator of the dataset's, or from its number."""
    init = loader.worker_init_fn
    if init is not None:
        return _by_number(init)
    try:
        return any(_generator(item) for item in walk(loader.dataset))
    except Exception:  # objects of another kind: as torch's own
        return False


def _by_number(init: Any) -> bool:
    if not isinstance(init, types.FunctionType):
        return False
    names = names_in(init)
    return bool(names & _SEEDING and not names & _FROM_TORCHS)


def _generator(item: Any) -> bool:
    version, *states = telling(item)
    del version
    return any(state is not None for state in states)
