"""The rule for code whose file is not there to be read: it names an object, and writes to any."""

from __future__ import annotations

import dis
import types
from typing import Iterable, Iterator

from .program_code import is_of_the_program

_WRITING = ("STORE_SUBSCR", "STORE_ATTR", "DELETE_SUBSCR")


def may_write(frames: Iterable[types.FrameType], names: set[str]) -> bool:
    """True if a function of the frames' modules has one of the names, and a write."""
    return any(_writes(code, names) for frame in frames for code in _codes(frame))


def _codes(frame: types.FrameType) -> Iterator[types.CodeType]:
    """Code of a frame, and of all functions and methods of its module."""
    yield from _with_inner(frame.f_code)
    for part in list(frame.f_globals.values()):
        methods = vars(part).values() if isinstance(part, type) else (part,)
        for method in methods:
            if isinstance(method, types.FunctionType) and is_of_the_program(method.__module__):
                yield from _with_inner(method.__code__)


def _with_inner(code: types.CodeType) -> Iterator[types.CodeType]:
    if code.co_name != "__init__":
        yield code
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield from _with_inner(part)


def _writes(code: types.CodeType, names: set[str]) -> bool:
    known = {*code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars}
    return bool(known & names) and any(
        instruction.opname in _WRITING for instruction in dis.get_instructions(code)
    )
