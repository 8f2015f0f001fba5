"""Variables that the program's own functions and classes read; libraries' code is left out."""

from __future__ import annotations

import os
import sys
import types
from typing import Any, Iterator

_LIBRARIES = ("site-packages", "dist-packages", os.path.dirname(os.__file__))
_NOT_OF_A_FETCH = frozenset(
    ("__init__", "__new__", "__getstate__", "__setstate__", "__reduce__", "__iter__", "__repr__")
)
_FIXED = (types.ModuleType, type, types.BuiltinFunctionType)


def variables(function: types.FunctionType) -> list[str]:
    """Names of its module's variables that a function of the program reads, as far as seen."""
    space = function.__globals__
    if not is_of_the_program(space.get("__name__")):
        return []
    names = dict.fromkeys(all_names(function.__code__))
    return [name for name in names if name in space and not isinstance(space[name], _FIXED)]


def names_in(function: types.FunctionType) -> frozenset[str]:
    """All names in the code of a function of the program: variables, attributes, modules."""
    ours = is_of_the_program(function.__globals__.get("__name__"))
    return frozenset(all_names(function.__code__)) if ours else frozenset()


def own_classes(item: Any) -> Iterator[tuple[type, list[str]]]:
    """An object's classes that the program defines, and names of the variables of each."""
    for kind in type(item).__mro__:
        if is_of_the_program(kind.__module__):
            yield kind, [name for name, part in vars(kind).items() if _settable(name, part)]


def code_of(kind: type) -> list[types.FunctionType]:
    """Functions that are defined in a class."""
    return [part for part in vars(kind).values() if isinstance(part, types.FunctionType)]


def names_of_a_fetch(item: Any) -> frozenset[str]:
    """All names in the methods of a dataset that getting an item may lead to."""
    methods = [part for kind, _ in own_classes(item) for part in code_of(kind)]
    names, found = {"__getitem__", "__getitems__"}, -1
    while len(names) != found:
        found = len(names)
        names.update(*(names_in(m) for m in methods if m.__name__ in names or _is_special(m)))
    return frozenset(names)


def _is_special(method: types.FunctionType) -> bool:
    return method.__name__.startswith("__") and method.__name__ not in _NOT_OF_A_FETCH


def _settable(name: str, part: Any) -> bool:
    return not name.startswith("__") and not isinstance(part, (types.FunctionType, *_FIXED))


def is_of_the_program(module_name: Any) -> bool:
    """True if a module is neither Python's nor an installed library's."""
    if module_name == "__main__":
        return True
    file = getattr(sys.modules.get(module_name), "__file__", None)
    return bool(file) and not any(place in str(file) for place in _LIBRARIES)


def all_names(code: types.CodeType) -> Iterator[str]:
    """Yield the names in a function's code, those of functions within it included."""
    yield from code.co_names
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield from all_names(part)
