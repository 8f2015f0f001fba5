"""Long lists of things that a loop could write to, one of them at a time, without being seen.

A look before each batch sees the first items of a container. Where a dataset keeps more than those,
and they can be written to (annotations in dicts), the program's own code around the loop tells: it
names such a container and writes to something, or it leaves it alone.
"""

from __future__ import annotations

import dis
import sys
import types
from collections import deque
from typing import Any, Iterator

from .dataset_inspection import MAX_ITEMS, OPAQUE
from .loop_changes import walk
from .program_code import is_of_the_program, variables

_CONTAINERS = (list, tuple, dict, deque)
_WRITING = ("STORE_SUBSCR", "STORE_ATTR", "DELETE_SUBSCR")
_MOST_WALKED = 200
_OURS = __name__.partition(".inspection.")[0]


def may_come(dataset: Any) -> bool:
    """True if the program's code writes where a dataset has items out of a look's reach."""
    hidden = dict(_hidden(dataset))
    if not hidden:
        return False
    frames = list(_frames())
    held = {id(container) for container in hidden.values()}
    names = set(hidden)
    for frame in frames:
        names |= {name for name, value in frame.f_locals.items() if id(value) in held}
    return any(_writes(code, names) for frame in frames for code in _codes(frame))


def _hidden(dataset: Any) -> Iterator[tuple[str, Any]]:
    """Names and containers of which a look sees the first items only."""
    for item in walk(dataset, most=_MOST_WALKED):
        for name, part in _named(item):
            if isinstance(part, _CONTAINERS) and len(part) > MAX_ITEMS and _writable(part):
                yield name, part


def _named(item: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(item, types.FunctionType):
        yield from ((name, item.__globals__[name]) for name in variables(item))
        cells = zip(item.__code__.co_freevars, item.__closure__ or ())
        yield from ((name, cell.cell_contents) for name, cell in cells)
    elif type(getattr(item, "__dict__", None)) is dict:
        yield from list(item.__dict__.items())


def _writable(container: Any) -> bool:
    """True if the first item is more than a number, a text or a tuple of such."""
    first = next(iter(container.values() if isinstance(container, dict) else container))
    items = first if isinstance(first, tuple) else (first,)
    return not all(item is None or isinstance(item, OPAQUE) for item in items)


def _frames() -> Iterator[types.FrameType]:
    """The program's own code that runs: its loop is among it."""
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if is_of_the_program(name) and not name.startswith(_OURS):
            yield frame
        frame = frame.f_back


def _codes(frame: types.FrameType) -> Iterator[types.CodeType]:
    """Code of a frame, and of all functions and methods of its module."""
    yield from _with_inner(frame.f_code)
    for part in list(frame.f_globals.values()):
        methods = vars(part).values() if isinstance(part, type) else (part,)
        for method in methods:
            if isinstance(method, types.FunctionType):
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
