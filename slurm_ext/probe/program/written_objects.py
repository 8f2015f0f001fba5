"""Writes of a program's functions to certain objects, by following names through their code."""

from __future__ import annotations

import ast
from typing import Any, Callable

from .calls import Calls
from .expressions import Expressions
from .marked_names import MarkedNames, class_of
from .marks import ITSELF, copied, holding, inside
from .program_trees import Scope

_MOST_ROUNDS = 12


class WrittenObjects:
    """Follows the marks that `names` begin with; what is unknown counts as a write."""

    def __init__(self, names: MarkedNames, strange: bool) -> None:
        self.names = names
        self._expressions = Expressions(names)
        Calls(self._expressions, strange, self._write)
        self._marks = self._expressions.marks
        self._may_run: Callable[[Scope, Any], bool] = _never
        self._written = False

    def may_come(self, may_run: Callable[[Scope, Any], bool]) -> bool:
        """True if a node that may run writes to one of the objects, or they go too far."""
        for _ in range(_MOST_ROUNDS):
            self.names.grew = False
            self._round()
            if not self.names.grew:
                self._may_run = may_run
                self._round()
                return self._written
        return True

    def _round(self) -> None:
        for scope in self.names.scopes:
            if isinstance(scope.node, ast.Lambda):
                self._give_back(self._marks(scope.node.body, scope), scope)
            for node in scope.nodes:
                act = _ACTS.get(type(node))
                if act is not None:
                    act(self, node, scope)

    def _write(self, node: Any, scope: Scope) -> None:
        self._written = self._written or self._may_run(scope, node)

    def _at_call(self, node: ast.Call, scope: Scope) -> None:
        self._marks(node, scope)

    def _at_assignment(self, node: ast.Assign, scope: Scope) -> None:
        marks = self._marks(node.value, scope)
        for target in node.targets:
            self._set(target, marks, scope)

    def _at_annotated(self, node: ast.AnnAssign, scope: Scope) -> None:
        if node.value is not None:
            self._set(node.target, self._marks(node.value, scope), scope)

    def _at_named(self, node: ast.NamedExpr, scope: Scope) -> None:
        self._set(node.target, self._marks(node.value, scope), scope)

    def _at_augmented(self, node: ast.AugAssign, scope: Scope) -> None:
        if self._marks(node.target, scope) & ITSELF:
            self._write(node, scope)
        self._set(node.target, copied(self._marks(node.value, scope)), scope)

    def _at_deletion(self, node: ast.Delete, scope: Scope) -> None:
        for target in node.targets:
            self._set(target, 0, scope)

    def _at_loop(self, node: Any, scope: Scope) -> None:
        made = self._expressions.rows(node.iter, scope)
        if isinstance(node.target, ast.Tuple) and len(made) == len(node.target.elts):
            for part, marks in zip(node.target.elts, made):
                self._set(part, marks, scope)
        else:
            marks = self._marks(node.iter, scope)
            self._set(node.target, inside(marks) | self._expressions.given_by(marks), scope)

    def _at_context(self, node: ast.withitem, scope: Scope) -> None:
        if node.optional_vars is not None:
            self._set(node.optional_vars, self._marks(node.context_expr, scope), scope)

    def _at_return(self, node: Any, scope: Scope) -> None:
        if node.value is not None:
            self._give_back(self._marks(node.value, scope), scope)

    def _at_delegation(self, node: Any, scope: Scope) -> None:
        self._give_back(copied(self._marks(node.value, scope)), scope)

    def _give_back(self, marks: int, scope: Scope) -> None:
        """A function's result; who calls one that is handed on as a value is not seen."""
        self.names.mark(("", scope.name + "()"), marks)
        if scope.name in self.names.handed:
            self.names.mark(("", "()"), marks)

    def _at_yield(self, node: Any, scope: Scope) -> None:
        if node.value is not None:
            self._give_back(holding(self._marks(node.value, scope)), scope)

    def _set(self, target: Any, marks: int, scope: Scope) -> None:
        """A value goes where the target says: into one of the objects, it is a write."""
        for part in target.elts if isinstance(target, (ast.Tuple, ast.List)) else (target,):
            owner = getattr(part, "value", None)
            if isinstance(part, (ast.Subscript, ast.Attribute)):
                marked = self._marks(owner, scope) & ITSELF
                named = _is_set_again(part, scope) and self._marks(part, scope) & ITSELF
                if marked or named:
                    self._write(part, scope)
        self.names.bind(target, marks, scope)


def _is_set_again(part: Any, scope: Scope) -> bool:
    """True for an attribute of an object that may be there already."""
    fresh = scope.name == "__init__" and class_of(part.value, scope)
    return isinstance(part, ast.Attribute) and not fresh


def _never(*_: Any) -> bool:
    return False


_ACTS: dict[type, Callable[[WrittenObjects, Any, Scope], None]] = {
    ast.Call: WrittenObjects._at_call,
    ast.Assign: WrittenObjects._at_assignment,
    ast.AnnAssign: WrittenObjects._at_annotated,
    ast.NamedExpr: WrittenObjects._at_named,
    ast.AugAssign: WrittenObjects._at_augmented,
    ast.Delete: WrittenObjects._at_deletion,
    ast.For: WrittenObjects._at_loop,
    ast.AsyncFor: WrittenObjects._at_loop,
    ast.comprehension: WrittenObjects._at_loop,
    ast.withitem: WrittenObjects._at_context,
    ast.Return: WrittenObjects._at_return,
    ast.Yield: WrittenObjects._at_yield,
    ast.YieldFrom: WrittenObjects._at_delegation,
}
