"""Functions of the program that can still run before a loader's pass ends, by the names to them."""

from __future__ import annotations

import ast
import gc
import types
from typing import Any, Iterable, Iterator

from .program_code import is_of_the_program
from .program_trees import Scope


class Reach:
    """The functions and lines that may run, by the names that lead to them."""

    def __init__(self, scopes: list[Scope], live: dict[Scope, list[tuple[int, int]]]) -> None:
        self._live = live
        self._inner = [s for s in scopes if s.outer is not None]
        self._called, self._handed = _mentions(scopes)
        self._made = _functions_made()
        self._whole: set[Scope] = set()
        names = {name for s, lines in live.items() for name in _names(s.nodes, lines)}
        while True:
            fresh = [s for s in self._inner if s not in self._whole and self._comes(s, names)]
            self._whole.update(fresh)
            if not fresh:
                break
            names |= {name for scope in fresh for name in _names(_all_nodes(scope), None)}

    def may_run(self, scope: Scope, node: Any) -> bool:
        """True if a node of a scope can still be come to."""
        lines = self._live.get(scope, ())
        return scope in self._whole or any(a <= node.lineno <= b for a, b in lines)

    def _exists(self, scope: Scope) -> bool:
        """True unless it is a function within one that neither made it nor will."""
        outer = scope.outer
        if outer is None or outer.outer is None or outer in self._whole or outer in self._live:
            return True
        made = (scope.tree.path, scope.name or "<lambda>", scope.first_line())
        return made in self._made

    def _comes(self, scope: Scope, names: set[str]) -> bool:
        """True if a name leads here, or if nobody sees what calls it."""
        if not (scope.name and self._exists(scope)):  # whoever has a lambda may call it
            return self._exists(scope)
        name = scope.kind if scope.name in _MAKING and scope.kind else scope.name
        if name in names:
            return True
        if scope.name in _MAKING or scope in self._live:
            return False
        if name in self._handed or name.startswith("__"):
            return True
        unseen = name not in self._called and bool(scope.kind or names & _LOOKING_UP)
        return unseen or bool(getattr(scope.node, "decorator_list", ())) or _inherited(scope)


def _functions_made() -> set[tuple[str, str, int]]:
    """Files, names and lines of the functions that there are."""
    codes = (one.__code__ for one in gc.get_objects() if type(one) is types.FunctionType)
    return {(code.co_filename, code.co_name, code.co_firstlineno) for code in codes}


_LOOKING_UP = {"globals", "eval", "exec", "import_module"}
_MAKING = ("__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__")


def _inherited(scope: Scope) -> bool:
    """True if a class of a library may call this method of its own accord."""
    if not scope.kind:
        return False
    kind = scope.tree.space.get(scope.kind)
    if not isinstance(kind, type):  # a class within a function
        bases = getattr(scope.tree.classes.get(scope.kind), "bases", ())
        return not all(map(_calls_nothing, bases))
    theirs = [base for base in kind.__mro__ if not is_of_the_program(base.__module__)]
    return any(hasattr(base, scope.name) for base in theirs)


def _calls_nothing(base: Any) -> bool:
    base = getattr(base, "value", base) if isinstance(base, ast.Subscript) else base
    return (getattr(base, "id", None) or getattr(base, "attr", "")) in ("Dataset", "object")


def _all_nodes(scope: Scope) -> list[Any]:
    return list(ast.walk(scope.node))


def _names(nodes: Iterable[Any], lines: list[tuple[int, int]] | None) -> Iterator[str]:
    """Names, attributes and texts that are nodes of such lines."""
    for node in nodes:
        name = getattr(node, "id", None) or getattr(node, "attr", None)
        name = getattr(node, "value", None) if isinstance(node, ast.Constant) else name
        if isinstance(name, str) and (
            lines is None or any(first <= node.lineno <= last for first, last in lines)
        ):
            yield name


def _mentions(scopes: Iterable[Scope]) -> tuple[set[str], set[str]]:
    """Names that are called, and those that are handed on as values."""
    called: set[str] = set()
    handed: set[str] = set()
    nodes = [node for scope in scopes for node in scope.nodes]
    functions = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        for name in _names((node,), None):
            (called if id(node) in functions else handed).add(name)
    return called, handed
