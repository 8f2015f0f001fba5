"""Lines of the program's running functions that can still run before a loader's pass ends.

Of a function's statements those remain that follow, and the loops around it. Where a `for`
statement holds the pass alone, the pass ends with that statement.
"""

from __future__ import annotations

import ast
import inspect
import sys
import threading
import types
from typing import Any, Iterator

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
