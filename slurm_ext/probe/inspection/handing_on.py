"""Generators that only hand on a list: samplers that make their batches, then yield each."""

from __future__ import annotations

import ast
import gc
import inspect
import sys
import textwrap
import types
from typing import Any


def handed_on(generator: Any) -> Any:
    """The list's iterator whose items are all that a generator gives to its end, as they are.

    None where it may do anything else between two of them.
    """
    frame = getattr(generator, "gi_frame", None)
    if type(generator) is not types.GeneratorType or frame is None:
        return None
    last = _last_statement(frame.f_code)
    if last is None or not last.lineno <= frame.f_lineno <= (last.end_lineno or 0):
        return None
    if isinstance(last, ast.Expr):
        return generator.gi_yieldfrom
    found: list[Any] = [
        part for part in gc.get_referents(generator) if type(part) is type(iter([]))
    ]
    return found[0] if len(found) == 1 else None


def is_its_own(generator: Any, handed: Any) -> bool:
    """True if only the generator and its local names have the list of `handed`, and lists in it."""
    items = next(iter(gc.get_referents(handed)), None)  # none: it is at its end
    space = generator.gi_frame.f_locals
    each = 2 if isinstance(space, dict) else 1  # up to Python 3.12 it is a copy, which stays
    named, given = 0, set()
    for value in space.values():
        named += each if value is items else 0
        given.add(id(value))
    del value
    if type(items) is not list or sys.getrefcount(items) > _ONE + named:
        return False
    for row in items:
        if type(row) is list and id(row) not in given and sys.getrefcount(row) > _ONE:
            return False
    return True


def _one() -> int:
    """References to a list in a list, where they are counted as above."""
    for row in [[0]]:
        return sys.getrefcount(row)
    return 0


_ONE = _one()


def _last_statement(code: types.CodeType) -> ast.stmt | None:
    """`for item in LIST: yield item` or `yield from LIST` at a function's end, by its file."""
    try:
        (function,) = ast.parse(textwrap.dedent(inspect.getsource(code))).body
    except (OSError, SyntaxError, ValueError):  # there is no source, or not of one function
        return None
    if not isinstance(function, ast.FunctionDef) or not _hands_on(function.body[-1]):
        return None
    return ast.increment_lineno(function.body[-1], code.co_firstlineno - 1)


def _hands_on(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.YieldFrom)
    if not isinstance(statement, ast.For) or statement.orelse or len(statement.body) != 1:
        return False
    given, target = statement.body[0], statement.target
    return (
        isinstance(given, ast.Expr)
        and isinstance(given.value, ast.Yield)
        and isinstance(given.value.value, ast.Name)
        and isinstance(target, ast.Name)
        and given.value.value.id == target.id
    )
