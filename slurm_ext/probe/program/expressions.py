"""Marks of expressions."""

from __future__ import annotations

import ast
from typing import Any, Callable

from .marked_names import MarkedNames, module_of
from .marks import DEEPER, ITEM, WAY, copied, holding, inside, union
from .program_trees import Scope


class Expressions:
    """Of any node of a scope, by the marks of `names`."""

    def __init__(self, names: MarkedNames) -> None:
        self.names = names
        self.of_call: Callable[[ast.Call, Scope], int]

    def marks(self, node: Any, scope: Scope) -> int:
        """Marks of an expression; numbers, texts and comparisons have none."""
        way = _WAYS.get(type(node))
        return way(self, node, scope) if way is not None else 0

    def _of_name(self, node: ast.Name, scope: Scope) -> int:
        return self.names.of((scope.home(node.id), node.id))

    def _of_attribute(self, node: ast.Attribute, scope: Scope) -> int:
        if module_of(node.value, scope) is not None:
            return 0
        owner = self.marks(node.value, scope)
        part = owner & (ITEM | DEEPER) and not self.names.is_plain(node.attr, owner)
        found = self.names.attribute(node.value, node.attr, scope)
        return (inside(owner) if part else 0) | found | self.names.of(("", node.attr + "()"))

    def _of_subscript(self, node: ast.Subscript, scope: Scope) -> int:
        owner = self.marks(node.value, scope)
        if isinstance(node.slice, ast.Slice):  # an item may be an array, whose part is its memory
            return owner if owner & (ITEM | DEEPER) else copied(owner)
        key = getattr(node.slice, "value", None)
        key = getattr(key, "value", key)  # an ast.Index before Python 3.9
        if isinstance(key, str) and _is_space(node.value):
            return self.names.attribute(None, key, scope)
        if isinstance(key, (str, int)) and self.names.is_plain(key, owner):
            return 0
        return inside(owner) | self.given_by(owner)

    def rows(self, node: Any, scope: Scope) -> list[int]:
        """Marks of what each step of `enumerate`, `zip` or a dict's `items` gives; else none."""
        name = getattr(getattr(node, "func", None), "id", "") or getattr(node, "func", None)
        if getattr(name, "attr", name) in self.names.functions:
            return []
        if name in ("enumerate", "zip"):
            parts = [self.marks(one, scope) for one in node.args]
            each = [inside(marks) | self.given_by(marks) for marks in parts]
            return [0, *each[:1]] if name == "enumerate" else each
        if isinstance(name, ast.Attribute) and name.attr == "items":
            return [0, inside(self.marks(name.value, scope))]
        return []

    def given_by(self, owner: int) -> int:
        """Marks of what a dataset gives, if this is one."""
        return self.names.of(("", "__getitem__()")) if owner & WAY else 0

    def _of_value(self, node: Any, scope: Scope) -> int:
        return self.marks(node.value, scope)

    def _of_choice(self, node: ast.IfExp, scope: Scope) -> int:
        return self.marks(node.body, scope) | self.marks(node.orelse, scope)

    def _of_either(self, node: ast.BoolOp, scope: Scope) -> int:
        return union(self.marks(one, scope) for one in node.values)

    def _of_sum(self, node: ast.BinOp, scope: Scope) -> int:
        return copied(self.marks(node.left, scope)) | copied(self.marks(node.right, scope))

    def _of_list(self, node: Any, scope: Scope) -> int:
        return union(self._part(one, scope) for one in node.elts)

    def _part(self, node: Any, scope: Scope) -> int:
        marks = self.marks(node, scope)
        return copied(marks) if isinstance(node, ast.Starred) else holding(marks)

    def _of_dict(self, node: ast.Dict, scope: Scope) -> int:
        parts = [(key, self.marks(value, scope)) for key, value in zip(node.keys, node.values)]
        return union(copied(marks) if key is None else holding(marks) for key, marks in parts)

    def _of_comprehension(self, node: Any, scope: Scope) -> int:
        return holding(self.marks(node.elt, scope))

    def _of_dict_comprehension(self, node: ast.DictComp, scope: Scope) -> int:
        return holding(self.marks(node.value, scope))

    def _of_call(self, node: ast.Call, scope: Scope) -> int:
        return self.of_call(node, scope)


def _is_space(node: Any) -> bool:
    """True for the dict of an object's attributes."""
    called = getattr(getattr(node, "func", None), "id", "")
    return getattr(node, "attr", "") == "__dict__" or called == "vars"


_WAYS: dict[type, Callable[[Expressions, Any, Scope], int]] = {
    ast.Name: Expressions._of_name,
    ast.Attribute: Expressions._of_attribute,
    ast.Subscript: Expressions._of_subscript,
    ast.Starred: Expressions._of_value,
    ast.NamedExpr: Expressions._of_value,
    ast.Await: Expressions._of_value,
    ast.IfExp: Expressions._of_choice,
    ast.BoolOp: Expressions._of_either,
    ast.BinOp: Expressions._of_sum,
    ast.Tuple: Expressions._of_list,
    ast.List: Expressions._of_list,
    ast.Set: Expressions._of_list,
    ast.Dict: Expressions._of_dict,
    ast.ListComp: Expressions._of_comprehension,
    ast.SetComp: Expressions._of_comprehension,
    ast.GeneratorExp: Expressions._of_comprehension,
    ast.DictComp: Expressions._of_dict_comprehension,
    ast.Call: Expressions._of_call,
}
