"""Names by which a program has objects: attributes, variables of modules and of functions.

Found upwards, from the objects to whatever refers to them, so that aliases are among them.
"""

from __future__ import annotations

import gc
import time
import types
from collections import deque
from typing import Any, Iterable

from . import known_calls as known
from .lines_ahead import program_frames

_OURS = __name__.partition(".program.")[0]
_CONTAINERS = (list, tuple, set, frozenset, deque, dict)
_PASSING = ("iterator", "map", "filter", "zip", "enumerate", "reversed")
_SEEN_BELOW = (types.FrameType, types.ModuleType, types.MappingProxyType)
_METHODS = (types.BuiltinMethodType, types.MethodWrapperType)
_MOST_LEVELS, _MOST_HOLDERS = 8, 400
_MOST_S = 10.0  # of all looks of a process: one goes through all its objects, ten million in 0.3 s


class Holders:
    """Holders of `objects`: `attributes` by name and class, variables by name and code.

    Those whom `besides` has are not looked for. `unknown`: somebody has them whom no name leads to,
    or looking took too long.
    """

    looked_s = 0.0

    def __init__(self, objects: Iterable[Any], besides: Iterable[Any] = ()) -> None:
        self.attributes: dict[str, list[type]] = {}
        self.of_modules: set[str] = set()
        self.of_functions: set[tuple[types.CodeType, str]] = set()
        self.unknown = False
        level = list(objects)
        self._besides = set(map(id, besides))
        self._known = {id(level), *map(id, level), *map(id, besides)}
        for _ in range(_MOST_LEVELS):
            began = time.perf_counter()
            level[:] = self._above(level)
            Holders.looked_s += time.perf_counter() - began
            self._known.update(map(id, level))
            too_many = len(level) > _MOST_HOLDERS or Holders.looked_s > _MOST_S
            self.unknown = self.unknown or too_many
            if not level or self.unknown:
                break
        self.unknown = self.unknown or bool(level)
        for frame, _ in program_frames():
            if frame.f_locals is not frame.f_globals:
                self._note_variables(frame)

    def _above(self, level: list[Any]) -> list[Any]:
        """Those that hold one of these and have no name themselves."""
        holders = gc.get_referrers(*level) if level else []
        return [part for one in holders if one is not level for part in self._note(one)]

    def names(self) -> set[str]:
        """All of them, whatever they are names of."""
        return {*self.attributes, *self.of_modules, *(name for _, name in self.of_functions)}

    def _note_variables(self, frame: types.FrameType) -> None:
        self.of_functions.update((frame.f_code, name) for name in self._names_in(frame.f_locals))

    def _names_in(self, space: Any) -> list[str]:
        wanted = self._known - self._besides
        return [name for name, value in list(space.items()) if id(value) in wanted]

    def _note(self, holder: Any) -> list[Any]:
        """Take down a holder's names; what is nameless itself is looked for further."""
        kind = type(holder)
        if id(holder) in self._known or kind.__module__.startswith(_OURS):
            return []
        if _is_space(holder):
            self.of_modules.update(self._names_in(holder))
        elif isinstance(holder, types.FunctionType):
            self._note_function(holder)
        elif isinstance(holder, types.GeneratorType):
            if holder.gi_frame is not None:
                self._note_variables(holder.gi_frame)
        elif isinstance(holder, _METHODS):
            self.unknown = self.unknown or holder.__name__ in known.WRITING
        elif kind in _CONTAINERS or isinstance(holder, types.CellType):
            return [holder]
        elif not (isinstance(holder, _SEEN_BELOW) or kind.__name__.endswith(_PASSING)):
            return self._note_attributes(holder)
        return []

    def _note_function(self, function: types.FunctionType) -> None:
        if str(function.__globals__.get("__name__")).startswith(_OURS):
            return
        cells = [cell for cell in function.__closure__ or () if id(cell) in self._known]
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            if cell in cells:
                self.of_functions.add((function.__code__, name))
        self.unknown = self.unknown or not cells

    def _note_attributes(self, holder: Any) -> list[Any]:
        names = self._names_in(getattr(holder, "__dict__", None) or {})
        slots = [name for kind in type(holder).__mro__ for name in _slots(kind)]
        names += [name for name in slots if id(getattr(holder, name, None)) in self._known]
        for name in names:
            kind = holder if isinstance(holder, type) else type(holder)
            self.attributes.setdefault(name, []).append(kind)
        if not names and not isinstance(holder, _CONTAINERS):
            self.unknown = True
        return [] if names else [holder]


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _is_space(holder: Any) -> bool:
    """True for the variables of a module."""
    return type(holder) is dict and "__name__" in holder and "__builtins__" in holder
