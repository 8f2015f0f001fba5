"""Calls: what they do with marked values, and the marks of their results."""

from __future__ import annotations

import ast
from typing import Any, Callable

from . import known_calls as known
from .expressions import Expressions
from .marked_names import MarkedNames, module_of
from .marks import DEEPER, ITEM, ITSELF, WAY, copied, holding, inside, union
from .own_calls import OwnCalls
from .program_code import is_of_the_program
from .program_trees import Scope


class Calls:
    """`on_write` hears of each call that may write to the data.

    `strange`: items may be objects of libraries whose methods are not known.
    """

    def __init__(
        self, expressions: Expressions, strange: bool, on_write: Callable[[Any, Scope], None]
    ) -> None:
        self.names: MarkedNames = expressions.names
        self._marks, self._strange, self._write = expressions.marks, strange, on_write
        self._own = OwnCalls(self.names, self._marks)
        expressions.of_call = self.marks

    def marks(self, call: ast.Call, scope: Scope) -> int:
        """Marks of a call's result, after it did what it does."""
        given = union(self._marks(one, scope) for one in _given(call)) & ~WAY
        for keyword in call.keywords:
            if keyword.arg == "out" and self._marks(keyword.value, scope) & ITSELF:
                self._write(call, scope)
        function = call.func
        if isinstance(function, ast.Attribute):
            return self._method(call, function, given, scope)
        if not isinstance(function, ast.Name):
            return self._unknown(call, given, scope)
        if function.id in self.names.functions or function.id in self.names.bases:
            return self._own.marks(call, function.id, None, given, scope)
        return self._by_name(call, function.id, given, scope)

    def _unknown(self, call: ast.Call, given: int, scope: Scope) -> int:
        if given:
            self._write(call, scope)
        return given | self.names.of(("", "()"))

    def _by_name(self, call: ast.Call, name: str, given: int, scope: Scope) -> int:
        if name in ("setattr", "delattr") and self._marks(_given(call)[0], scope) & ITSELF:
            self._write(call, scope)
        if name in known.NOTHING_KEPT or name in ("setattr", "delattr"):
            return 0
        if name in known.SAME_PARTS:
            return copied(given)
        if name == "getattr":
            return inside(given) | self._named(call, scope)
        if name in known.A_PART:
            return inside(given)
        home = getattr(scope.tree.space.get(name), "__module__", None)
        if scope.home(name) is None and isinstance(home, str):
            return self._of_library(call, home, name, given, scope)
        return self._unknown(call, given, scope)

    def _named(self, call: ast.Call, scope: Scope) -> int:
        """Marks of the attribute that `getattr` is asked for."""
        name = getattr(call.args[1], "value", None) if len(call.args) > 1 else None
        if isinstance(name, str):
            return self.names.attribute(call.args[0], name, scope)
        return self.names.any_attribute()

    def _of_library(self, call: ast.Call, home: str, name: str, given: int, scope: Scope) -> int:
        if not given:
            return 0
        reads = home.partition(".")[0].lstrip("_") in known.READING_LIBRARIES
        if not reads or name in known.WRITING_OF_LIBRARIES or name.endswith("_"):
            return self._unknown(call, given, scope)
        if name == "DataLoader":
            self._note_fields(call, scope)
        if name in known.NEW_RESULT:
            return 0
        return copied(given) if name in known.SAME_PARTS else given | inside(given)

    def _note_fields(self, call: ast.Call, scope: Scope) -> None:
        """A loader has what it was given in attributes of the same names; its batches are new."""
        fields = [("dataset", one) for one in call.args[:1]]
        fields += [(keyword.arg or "", keyword.value) for keyword in call.keywords]
        for name, value in fields:
            self.names.mark(("", "." + name), self._marks(value, scope))

    # -- methods ---------------------------------------------------------------------------

    def _method(self, call: ast.Call, function: ast.Attribute, given: int, scope: Scope) -> int:
        name = function.attr
        home = module_of(function.value, scope) or _home_of_value(function.value, scope)
        if home is not None and (name not in self.names.functions or not is_of_the_program(home)):
            return self._of_library(call, home, name, given, scope)
        if _is_super(function.value):
            return self._own.marks(call, name, 0, given, scope)
        owner = self._marks(function.value, scope)
        if owner & ITSELF and self._writes(name, owner):
            self._write(call, scope)
        if given and name in known.GATHERING:
            held = copied(given) if name in known.GATHERING_PARTS else holding(given)
            self.names.bind(function.value, held, scope)
        elif name in self.names.functions:
            return self._own.marks(call, name, owner, given, scope) | self._result(name, owner)
        elif not owner & ITSELF:
            return self._unknown(call, given, scope) | self._result(name, owner)
        return self._result(name, owner)

    def _writes(self, name: str, owner: int) -> bool:
        if name in known.WRITING:
            return True
        if not owner & (ITEM | DEEPER):
            return False  # a container of Python's
        if name in known.WRITING_TO_ARRAYS or (name.endswith("_") and not name.endswith("__")):
            return True
        return self._strange and name not in known.READING and name not in self.names.functions

    def _result(self, name: str, owner: int) -> int:
        if name in known.NEW_RESULT:
            return 0
        return copied(owner) if name == "copy" else inside(owner) | copied(owner)


def _given(call: ast.Call) -> list[Any]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _home_of_value(node: Any, scope: Scope) -> str | None:
    """The library's module of which this value is one, however deep."""
    while isinstance(node, ast.Attribute):
        node = node.value
        home = module_of(node, scope)
        if home is not None:
            return None if is_of_the_program(home) else home
    return None


def _is_super(node: Any) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "super"
