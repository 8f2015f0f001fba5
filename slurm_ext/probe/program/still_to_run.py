"""Lines of the program that can still run before a loader's pass ends.

A frame that runs tells what is behind it: of a file's statements those remain that follow, and the
loops around it. Where a `for` statement holds the pass alone, the pass ends with that statement.
"""

from __future__ import annotations

import ast
import gc
import inspect
import sys
import threading
import types
from typing import Any, Iterable, Iterator

from .program_code import is_of_the_program
from .program_trees import Scope

_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_OURS = __name__.partition(".program.")[0]


def program_frames() -> Iterator[tuple[types.FrameType, bool]]:
    """The program's own frames, innermost first, and if each is of the thread that asks."""
    frames = sys._current_frames()
    here = threading.get_ident()
    for thread in [here, *(one for one in frames if one != here)]:
        frame: types.FrameType | None = frames.get(thread)
        while frame is not None:
            name = str(frame.f_globals.get("__name__"))
            if is_of_the_program(name) and not name.startswith(_OURS):
                yield frame, thread == here
            frame = frame.f_back


def lines_ahead(
    frame: types.FrameType, scope: Scope, kept: bool
) -> tuple[list[tuple[int, int]], bool]:
    """Lines of a frame's function that may follow, and if the pass ends with them.

    `kept`: an object of the program keeps the pass, which outlives its loop then.
    """
    line = frame.f_lineno
    path = list(_path(scope.node, line))
    last = path[-1][0] if path else None
    heads = isinstance(last, ast.For) and line < last.body[0].lineno
    if isinstance(last, ast.For) and heads and not kept and _held_by(last, frame):
        # A generator hands each batch on: its caller's loop goes on before the next.
        return [(last.body[0].lineno, _end(last))], not frame.f_code.co_flags & _GENERATORS
    return list(_ahead(path)), False


def _path(node: Any, line: int) -> Iterator[tuple[Any, list[Any]]]:
    """The statements around a line, outermost first, each with those that follow it."""
    for body in _bodies(node):
        for count, statement in enumerate(body):
            if statement.lineno <= line <= _end(statement):
                yield statement, body[count + 1 :]
                if not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                    yield from _path(statement, line)
                return


def _bodies(node: Any) -> Iterator[list[Any]]:
    for name in ("body", "orelse", "finalbody"):
        body = getattr(node, name, None)
        if isinstance(body, list):
            yield body
    for handler in getattr(node, "handlers", []):
        yield handler.body


def _ahead(path: list[tuple[Any, list[Any]]]) -> Iterator[tuple[int, int]]:
    for statement, following in path:
        if following:
            yield following[0].lineno, _end(following[-1])
        if isinstance(statement, (ast.For, ast.While, ast.AsyncFor)):
            yield statement.lineno, _end(statement)
        for body in _bodies(statement) if isinstance(statement, ast.Try) else ():
            if body and body is not statement.body:
                yield body[0].lineno, _end(body[-1])
    if path:
        yield path[-1][0].lineno, _end(path[-1][0])


def _end(node: Any) -> int:
    return int(node.end_lineno or node.lineno)


def _held_by(loop: ast.For, frame: types.FrameType) -> bool:
    """True if nobody but this statement has the iterator: no name in it is one."""
    names = {part.id for part in ast.walk(loop.iter) if isinstance(part, ast.Name)}
    known = {**frame.f_globals, **frame.f_locals}
    attributes = {p.attr for p in ast.walk(loop.iter) if isinstance(p, ast.Attribute)}
    values = [known[name] for name in names if name in known]
    values += [vars(v)[a] for v in values for a in attributes if a in getattr(v, "__dict__", {})]
    return not any(hasattr(type(value), "__next__") for value in values)


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
        return self._made is None or made in self._made

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


def _functions_made() -> set[tuple[str, str, int]] | None:
    """Files, names and lines of the functions that there are; None: some are hidden."""
    if gc.get_freeze_count():
        return None
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
