"""A `worker_init_fn` that goes by its worker's number: a port, a core, a file of its own."""

from __future__ import annotations

import dis
import functools
import types
from typing import Any

from ..program.program_code import all_names
from .own_streams import FROM_TORCHS

_READS = ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE", "STORE_FAST_LOAD_FAST")


def named_by(init: Any) -> bool:
    """True if the number may name what two workers must not share; torch's seed says: a seed."""
    if init is None:
        return False
    function, place = _called(init)
    if not isinstance(function, types.FunctionType) or place >= function.__code__.co_argcount:
        return True
    code = function.__code__
    return _reads(code, code.co_varnames[place]) and FROM_TORCHS.isdisjoint(all_names(code))


def _called(init: Any) -> tuple[Any, int]:
    """The function that a call of it runs, and the place of the number among its parameters."""
    place = 0
    while isinstance(init, (functools.partial, types.MethodType)):
        if isinstance(init, functools.partial):
            place, init = place + len(init.args), init.func
        else:
            place, init = place + 1, init.__func__
    if isinstance(init, types.FunctionType):
        return init, place
    return type(init).__call__, place + 1


def _reads(code: types.CodeType, name: str) -> bool:
    loads = (one for one in dis.get_instructions(code) if one.opname.startswith(_READS))
    return any(name == one.argval or name in _several(one.argval) for one in loads)


def _several(names: Any) -> Any:
    """The names of an instruction that loads two."""
    return names if isinstance(names, tuple) else ()
