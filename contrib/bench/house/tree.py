"""Counts of folders, files, names and words in the source tree."""

import ast
import re
from collections import Counter
from pathlib import Path
from typing import Any

from tests import house
from tests.test_words import in_dialect, meant_twice

SHORT_LINES = 50


def product() -> dict[str, Any]:
    """Counts of slurm_ext."""
    lines = {path: _lines(path) for path in house.PACKAGE.rglob("*.py")}
    modules = [count for path, count in lines.items() if path.name != "__init__.py"]
    graph = {module: house.imports(module) for module in house.modules()}
    return {
        "most_files_in_a_folder": _most_files(house.PACKAGE),
        "packages": len(lines) - len(modules),
        "modules": len(modules),
        "modules_below_50_lines": sum(count < SHORT_LINES for count in modules),
        "lines": sum(lines.values()),
        "class_names_with_several_meanings": len(meant_twice()),
        "import_circles": len(house.circles(graph)),
        "first_lines_in_dialect": len(in_dialect()),
        "formatter_tricks": _tricks(house.PACKAGE),
    }


def benchmarks() -> dict[str, Any]:
    """Counts of contrib/bench."""
    texts = [path.read_text(encoding="utf-8") for path in house.BENCH.rglob("*.py")]
    ignored = sum(len(re.findall(r"#\s*type: ignore\[import", text)) for text in texts)
    return {
        "most_files_in_a_folder": _most_files(house.BENCH),
        "modules": len(texts),
        "lines": sum(text.count("\n") for text in texts),
        "type_ignores_of_imports": ignored,
        "first_lines_in_dialect": len(in_dialect(house.BENCH)),
        "formatter_tricks": _tricks(house.BENCH),
    }


def control() -> dict[str, list[str]]:
    """Modules of `control` that wait for signals, and classes that are a loop's state folder."""
    folder = house.PACKAGE / "control"
    trees = {path: ast.parse(path.read_bytes()) for path in sorted(folder.rglob("*.py"))}
    return {
        "daemons": [str(p.relative_to(folder)) for p, tree in trees.items() if _is_daemon(tree)],
        "state_folders": sorted(_state_folders(trees)),
    }


def _is_daemon(tree: ast.Module) -> bool:
    called = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(isinstance(name, ast.Name) and name.id == "signals" for name in called)


def _state_folders(trees: dict[Path, ast.Module]) -> set[str]:
    """Classes of loop_state.py and all that derive from them."""
    classes = {
        node.name: (path.stem, {base.id for base in node.bases if isinstance(base, ast.Name)})
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    names = {name for name, (file, _) in classes.items() if file == "loop_state"}
    for _ in classes:
        names |= {name for name, (_, bases) in classes.items() if bases & names}
    return names


def _tricks(folder: Path) -> int:
    """Unpacked literals, which only change where the formatter breaks lines, and `fmt: skip`."""
    texts = [path.read_text(encoding="utf-8") for path in folder.rglob("*.py")]
    unpacked = (
        isinstance(node, ast.Starred) and isinstance(node.value, ast.Tuple)
        for text in texts
        for node in ast.walk(ast.parse(text))
    )
    return sum(unpacked) + sum(
        len(re.findall(r"# fmt: skip$", text, re.MULTILINE)) for text in texts
    )


def _most_files(folder: Path) -> int:
    return max(Counter(path.parent for path in folder.rglob("*.py")).values())


def _lines(path: Path) -> int:
    return len(path.read_bytes().splitlines())
