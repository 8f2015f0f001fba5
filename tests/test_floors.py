"""The house keeps its floors: DESIGN's table of rooms, checked against every import."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "slurm_ext"

MAY_IMPORT: dict[str, set[str]] = {
    "facts": set(),
    "node": set(),
    "probe": set(),
    "ranks": set(),
    "cluster": {"facts"},
    "history": {"facts", "node"},
    "model": {"facts"},
    "policy": {"facts", "model"},
    "training": {"facts", "history", "model"},
    "advise": {"facts", "history", "model", "policy", "cluster"},
    "control": {"facts", "node", "history", "model", "policy", "cluster"},
    "simulate": {"facts", "model", "policy"},
    "report": {"facts", "history"},
    "sandbox": {"facts", "cluster"},
    "install": {"facts"},
}
MAY_IMPORT["cli"] = set(MAY_IMPORT)

STANDARD_LIBRARY_ONLY = {"facts", "node", "probe"}
# NVIDIA's own binding to its library, in a process that a hook starts and never waits for; where it
# is absent, GPUs are not counted and the record says so.
MAY_FIND_PYNVML = "node/nvml_reader.py"
ONLY_IN_TRAINING = {"torch", "sklearn", "lightgbm"}
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE)


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Its imports and assertions, found once for all tests."""
    wanted = (ast.Import, ast.ImportFrom, ast.Assert)
    return tuple(
        node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, wanted)
    )


def imports_of(path: Path) -> Iterator[str]:
    """Every module that the file imports, at its top or inside a function."""
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(path: Path) -> str:
    """The room a file stands in."""
    return path.relative_to(PACKAGE).parts[0]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_from_floors_below(path: Path) -> None:
    """No file reaches into a room that its own room may not know."""
    room = room_of(path)
    rooms = {
        name.split(".")[1] for name in imports_of(path) if name.startswith("slurm_ext.")
    } & set(MAY_IMPORT)
    assert rooms - {room} <= MAY_IMPORT[room]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_hooks_and_words_need_only_the_standard_library(path: Path) -> None:
    """What runs as root or inside the user's job brings nothing along; torch stays in training."""
    room = room_of(path)
    outside = {
        name.split(".")[0]
        for name in imports_of(path)
        if name.split(".")[0] not in {*sys.stdlib_module_names, "slurm_ext"}
    }
    if room == "probe":
        outside -= {"torch"}  # only ever the user's own, already imported by their script
    if str(path.relative_to(PACKAGE)) == MAY_FIND_PYNVML:
        outside -= {"pynvml"}
    if room in STANDARD_LIBRARY_ONLY:
        assert not outside
    if room not in ("training", "probe", "ranks"):  # the latter two meet the job's own torch
        assert not outside & ONLY_IN_TRAINING


def test_history_borrows_only_the_spools_reader_from_the_node() -> None:
    """The one import between a hook's files and the database is the record's reader."""
    borrowed = {
        name
        for path in FILES
        if room_of(path) == "history"
        for name in imports_of(path)
        if name.startswith("slurm_ext.node")
    }
    assert all(name.startswith("slurm_ext.node.spool") for name in borrowed)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_product_code_does_not_assert(path: Path) -> None:
    """A check that `python -O` removes is no check."""
    assert not any(isinstance(node, ast.Assert) for node in nodes_of(path))
