"""Trees of the program's own files, each read once."""

from __future__ import annotations

import os
import re
import sys
from typing import Any, Iterator

from .program_code import is_of_the_program
from .program_trees import Tree

_MOST_BYTES = 1 << 19  # of files that are read, a second
_OURS = __name__.partition(".program.")[0]
_trees: dict[str, Tree | None] = {}


def all_trees() -> list[Tree]:
    """Those that were read."""
    return [tree for tree in _trees.values() if tree is not None]


def read_all() -> Iterator[str]:
    """Read the program's files; give the paths of those for which there are too many."""
    size = 0
    for path, space in list(_files()):
        size += os.path.getsize(path)
        if size < _MOST_BYTES:
            tree_of(path, space)
        if _trees.get(path) is None:
            yield path


def has_any(path: str, names: set[str]) -> bool:
    """True if a file has one of the names, or cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return not names.isdisjoint(re.findall(r"\w+", file.read()))
    except (OSError, ValueError):
        return True


def _files() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if is_of_the_program(name) and not name.startswith(_OURS) and os.path.isfile(str(path)):
            yield str(path), vars(module)


def tree_of(path: str, space: dict[str, Any]) -> Tree | None:
    """The tree of a file whose module has these variables; None: it cannot be read."""
    if path not in _trees:
        try:
            with open(path, encoding="utf-8") as file:
                _trees[path] = Tree(file.read(), path, space)
        except (OSError, ValueError, SyntaxError):
            _trees[path] = None
    return _trees[path]
