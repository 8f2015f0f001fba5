"""The house keeps its floors: the table of rooms (tests/house.py), checked against every import."""

import ast
import sys
from collections import Counter
from pathlib import Path

from tests.house import (
    BENCH,
    MAY_IMPORT,
    MOST_BENCH_FILES,
    MOST_FILES,
    PACKAGE,
    SUB_ROOMS,
    circles,
    imports,
    modules,
    place_of,
    table,
)

STANDARD_LIBRARY_ONLY = {"core", "node", "probe"}
# NVIDIA's own binding to its library, in a process that a hook starts and never waits for; where it
# is absent, GPUs are not counted and the record says so.
MAY_FIND_PYNVML = "node.counters.gpu.nvml_reader"
ONLY_IN_TRAINING = {"torch", "sklearn", "lightgbm"}
MEET_THE_JOBS_TORCH = {"training", "probe", "ranks", "spatial"}


def _outside(module: str) -> frozenset[str]:
    """Top packages that the module imports from neither the standard library nor ours."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(modules()[module].read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.split(".")[0])
    return frozenset(names - {*sys.stdlib_module_names, "slurm_ext"})


def _from_above(module: str) -> list[str]:
    """Imports of a room that the module's own may not, or of a sub-room above its own."""
    room, folder = place_of(module)
    order = SUB_ROOMS.get(room, ("",))
    below = order[: order.index(folder) + 1]
    return [
        imported
        for imported in imports(module)
        if (other := place_of(imported))[0] not in (MAY_IMPORT[room] | {room})
        or (other[0] == room and other[1] not in below)
    ]


def test_a_room_imports_only_from_floors_below() -> None:
    """No file imports a room that its own may not, or a sub-room that stands above its own."""
    places = [(module, *place_of(module)) for module in modules()]
    assert [m for m, room, folder in places if folder not in SUB_ROOMS.get(room, ("",))] == []
    assert {module: found for module in modules() if (found := _from_above(module))} == {}


def test_hooks_and_core_need_only_the_standard_library() -> None:
    """What runs as root or inside the user's job brings nothing along; torch stays in training."""
    for module in modules():
        room, _ = place_of(module)
        outside = set(_outside(module))
        if room == "probe":
            outside -= {"torch"}  # only ever the user's own, already imported by their script
        if module == MAY_FIND_PYNVML:
            outside -= {"pynvml"}
        if room in STANDARD_LIBRARY_ONLY:
            assert not outside, module
        if room not in MEET_THE_JOBS_TORCH:
            assert not outside & ONLY_IN_TRAINING, module


def test_no_files_import_each_other_in_a_circle() -> None:
    """Every file can be read after those that it imports."""
    assert circles({module: imports(module) for module in modules()}) == []


def test_history_borrows_only_the_records_fields_and_reader_from_the_node() -> None:
    """A record's fields are written down once, beside the hooks that may import nothing else."""
    borrowed = {
        name
        for module in modules()
        if place_of(module)[0] == "history"
        for name in imports(module)
        if name.startswith("node.")
    }
    assert borrowed <= {"node.record.fields", "node.record.reader"}


def _crowded(folder: Path, most: int) -> dict[str, int]:
    found = Counter(str(path.parent.relative_to(folder)) for path in folder.rglob("*.py"))
    return {name: count for name, count in found.items() if count > most}


def test_no_folder_is_crowded() -> None:
    """A folder lists at most 20 files, and 17 where benchmarks live: people read it at a glance."""
    assert _crowded(PACKAGE, MOST_FILES) == {}
    assert _crowded(BENCH, MOST_BENCH_FILES) == {}


def test_a_package_says_what_lives_there() -> None:
    """Each folder's first sentence says what belongs into it."""
    packages = PACKAGE.rglob("__init__.py")
    assert [path for path in packages if not ast.get_docstring(ast.parse(path.read_bytes()))] == []


def _asserts(path: Path) -> bool:
    return any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(path.read_bytes())))


def test_product_code_does_not_assert() -> None:
    """A check that `python -O` removes is no check."""
    assert [module for module, path in modules().items() if _asserts(path)] == []


def test_contributing_shows_the_table() -> None:
    """A newcomer reads the same table that these tests check: print(tests.house.table())."""
    assert table() in (PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_names_of_test_files_are_unique() -> None:
    """Two files of one name cannot be collected in one run."""
    names = Counter(path.name for path in (PACKAGE.parent / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
