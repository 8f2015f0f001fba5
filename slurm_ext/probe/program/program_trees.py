"""Syntax trees of the program's own files, held against the code that runs.

A tree tells which object a write goes to, which code alone does not easily tell. A file that was
edited since the program started is not what runs: its compiled code differs, and it is left out.
"""

from __future__ import annotations

import ast
import types
from typing import Any, Iterator

Function = Any  # ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda or ast.Module
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Scope:
    """A function of a file, or the file: its own variables and the nodes that are not inner ones'.

    `kind` is the class whose method it is, `outer` the function or file around it.
    """

    def __init__(self, node: Function, outer: Scope | None, kind: str, tree: Tree) -> None:
        self.node, self.outer, self.kind, self.tree = node, outer, kind, tree
        self.name = str(getattr(node, "name", ""))
        self.nodes: list[ast.AST] = []
        self.foreign: set[str] = set()  # variables of others that it may set
        self.variables: set[str] = set(self.parameters())

    def parameters(self) -> list[str]:
        """Names of its parameters, those by position first."""
        args = getattr(self.node, "args", None)
        if args is None:
            return []
        rest = [*args.kwonlyargs, *filter(None, (args.vararg, args.kwarg))]
        return [one.arg for one in [*args.posonlyargs, *args.args, *rest]]

    def home(self, name: str) -> Scope | None:
        """The scope whose variable this is; None: it is one of the file's, or of Python's."""
        scope: Scope | None = self
        while scope is not None and scope.outer is not None:
            if name in scope.variables - scope.foreign:
                return scope
            scope = scope.outer
        return None

    def first_line(self) -> int:
        """Line of its code object: that of its first decorator."""
        lines = [one.lineno for one in getattr(self.node, "decorator_list", [])]
        return int(min([*lines, getattr(self.node, "lineno", 1)]))


class Tree:
    """One file: its scopes, and the variables of its module (`space`)."""

    def __init__(self, text: str, path: str, space: dict[str, Any]) -> None:
        self.space, self.path = space, path
        parsed = ast.parse(text, path)
        self._codes = set(_all_codes(compile(text, path, "exec", dont_inherit=True)))
        self.scopes = [Scope(parsed, None, "", self)]
        self._collect(parsed, self.scopes[0], "")
        self.classes = {p.name: p for p in ast.walk(parsed) if isinstance(p, ast.ClassDef)}

    def _collect(self, node: ast.AST, scope: Scope, kind: str) -> None:
        for part in ast.iter_child_nodes(node):
            scope.nodes.append(part)
            _note_variables(part, scope)
            if isinstance(part, _FUNCTIONS):
                inner = Scope(part, scope, kind, self)
                self.scopes.append(inner)
                self._collect(part, inner, "")
            else:
                self._collect(part, scope, part.name if isinstance(part, ast.ClassDef) else kind)

    def runs(self, code: types.CodeType) -> bool:
        """True if this code was compiled from the file as it is."""
        return code in self._codes

    def scope_of(self, code: types.CodeType) -> Scope | None:
        """The function of a code object; that around it for a comprehension."""
        if code.co_name == "<module>":
            return self.scopes[0]
        line = code.co_firstlineno
        exact = [one for one in self.scopes if (one.name, one.first_line()) == (code.co_name, line)]
        around = [one for one in self.scopes if one.outer is None or _spans(one.node, line)]
        return (exact or around)[-1] if self.runs(code) else None


def _spans(node: Any, line: int) -> bool:
    return bool(node.lineno <= line <= (node.end_lineno or 0))


def _note_variables(node: ast.AST, scope: Scope) -> None:
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        scope.foreign.update(node.names)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
        scope.variables.add(node.id)
    elif isinstance(node, (*_FUNCTIONS[:2], ast.ClassDef, ast.ExceptHandler)):
        scope.variables.add(node.name or "")
    elif isinstance(node, ast.alias):
        scope.variables.add((node.asname or node.name).partition(".")[0])


def _all_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield from _all_codes(part)
