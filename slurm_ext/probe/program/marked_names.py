"""Marks of names: variables of functions and modules, attributes by class, results of functions."""

from __future__ import annotations

import ast
import types
from typing import Any, Iterable

from .marks import DEEPER, GROUP, copied, holding, inside, union
from .program_trees import Scope, Tree


class MarkedNames:
    """Marks only grow: a name has those of all that is ever bound to it, whatever the order.

    `plain`: keys and places under which items have nothing that could be written to.
    """

    def __init__(self, trees: Iterable[Tree], plain: frozenset[Any]) -> None:
        trees = list(trees)
        self.plain = plain
        self.scopes = [scope for tree in trees for scope in tree.scopes]
        self.functions: dict[str, list[Scope]] = {}
        for scope in self.scopes:
            if scope.name:
                self.functions.setdefault(scope.name, []).append(scope)
        classes = [part for tree in trees for part in tree.classes.values()]
        self.bases = {part.name: set(_bases(part)) for part in classes}
        self.grew = False
        self.handed = {part.id for part in _handed(self.scopes)}
        self._marks: dict[Any, int] = {}
        self._of_any: dict[str, int] = {}  # attributes, of whatever class
        self._families: dict[str, set[str]] = {}

    def mark(self, key: Any, marks: int) -> None:
        """Add to (scope or None, variable), (class, ".attribute") or ("", "function()")."""
        if marks & ~self._marks.get(key, 0):
            self._marks[key] = self._marks.get(key, 0) | marks
            if key[1].startswith("."):
                self._of_any[key[1]] = self._of_any.get(key[1], 0) | marks
            self.grew = True

    def of(self, key: Any) -> int:
        """Marks of a key."""
        return self._marks.get(key, 0)

    def bind(self, target: Any, marks: int, scope: Scope) -> None:
        """A statement gives a value with such marks to what stands at its left."""
        if isinstance(target, (ast.Tuple, ast.List)):
            for place, part in enumerate(target.elts):
                self.bind(part, 0 if self.is_plain(place, marks) else inside(marks), scope)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, copied(marks), scope)
        elif isinstance(target, ast.Name):
            self.mark((scope.home(target.id), target.id), marks)
        elif isinstance(target, ast.Attribute):
            self.mark((class_of(target.value, scope), "." + target.attr), marks)
        elif isinstance(target, ast.Subscript):
            self.bind(target.value, holding(marks), scope)

    def is_plain(self, key: Any, owner: int) -> bool:
        """True if what an item has under a key cannot be written to."""
        return key in self.plain and not owner & (GROUP | DEEPER)

    def attribute(self, owner: Any, name: str, scope: Scope) -> int:
        """Marks of an attribute: of its class where that is known, else of all of the name."""
        kind, key = class_of(owner, scope), "." + name
        if kind:
            return union(self.of((one, key)) for one in ("", *self._family(kind)))
        return self._of_any.get(key, 0)

    def any_attribute(self) -> int:
        """Marks of whatever attribute there is."""
        return union(self._of_any.values())

    def _family(self, kind: str) -> set[str]:
        """A class, those it derives from, and those of the program that derive from one of them."""
        family = self._families.get(kind)
        if family is None:
            family, size = {kind}, 0
            while len(family) != size:
                size = len(family)
                family.update(*(self.bases.get(one, ()) for one in family))
                ours = family & set(self.bases)
                family |= {name for name, above in self.bases.items() if above & ours}
            self._families[kind] = family
        return family


def _handed(scopes: list[Scope]) -> Iterable[ast.Name]:
    """Names that stand as values, so that a function is called by others."""
    nodes = [node for scope in scopes for node in scope.nodes]
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    return (node for node in nodes if isinstance(node, ast.Name) and id(node) not in called)


def _bases(part: ast.ClassDef) -> Iterable[str]:
    for base in part.bases:
        name = base.value if isinstance(base, ast.Subscript) else base
        yield str(getattr(name, "id", None) or getattr(name, "attr", ""))


def class_of(owner: Any, scope: Scope) -> str:
    """The class of `self`; empty: that of anything else."""
    around: Scope | None = scope
    while around is not None and isinstance(owner, ast.Name):
        if owner.id in around.variables:
            return around.kind if around.parameters()[:1] == [owner.id] else ""
        around = around.outer
    return ""


def module_of(node: Any, scope: Scope) -> str | None:
    """The name of the module that an expression is; None: it is something else."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or scope.home(node.id) is not None:
        return None
    value = scope.tree.space.get(node.id)
    for name in reversed(names):
        value = vars(value).get(name) if isinstance(value, types.ModuleType) else None
    return value.__name__ if isinstance(value, types.ModuleType) else None
