"""Calls of the program's own functions: what is given goes to their parameters, and comes back."""

from __future__ import annotations

import ast
from typing import Any, Callable

from .marked_names import MarkedNames
from .marks import holding
from .program_trees import Scope


class OwnCalls:
    """Hands marks over to parameters; `marks` gives those of an expression."""

    def __init__(self, names: MarkedNames, marks: Callable[[Any, Scope], int]) -> None:
        self.names, self._marks = names, marks

    def marks(self, call: ast.Call, name: str, owner: int | None, given: int, scope: Scope) -> int:
        """A function of the program of this name; a method of its `owner`."""
        making = name in self.names.bases
        for function in self._functions(name):
            self._hand_over(call, function, owner, scope)
        if making:  # without an `__init__`, fields are what is given
            return 0 if self._functions(name) else holding(given)
        return self.names.of(("", name + "()"))

    def _functions(self, name: str) -> list[Scope]:
        made = [s for s in self.names.functions.get("__init__", []) if s.kind == name]
        return [*self.names.functions.get(name, []), *made]

    def _hand_over(self, call: ast.Call, function: Scope, owner: int | None, scope: Scope) -> None:
        parameters = function.parameters()
        if function.kind and parameters[:1] in (["self"], ["cls"]):
            self.names.mark((function, parameters[0]), owner or 0)
            parameters = parameters[1:]
        spread = any(isinstance(one, ast.Starred) for one in call.args)
        for count, one in enumerate(call.args):
            fitting = parameters if spread else parameters[count : count + 1] or parameters[-2:]
            self._give(function, fitting, self._marks(one, scope))
        for keyword in call.keywords:
            fitting = [keyword.arg] if keyword.arg in parameters else parameters
            self._give(function, fitting, self._marks(keyword.value, scope))

    def _give(self, function: Scope, parameters: list[Any], marks: int) -> None:
        args = function.node.args
        rest = [one.arg for one in (args.vararg, args.kwarg) if one is not None]
        for name in parameters:
            self.names.mark((function, name), holding(marks) if name in rest else marks)
