"""Every module is reached from what people and Slurm start: none is there for tests alone."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from slurm_ext.cli.common.commands import COMMANDS
from slurm_ext.cli.common.parsers import module_of
from tests.house import PACKAGE, imports, modules

ROOT = PACKAGE.parent
# Beside the commands: the hooks, the job's Python (site/ goes on its path), ranks and the package.
STARTS = ("cli.__main__", "node.__main__", "ranks.__main__", "probe.site.sitecustomize")
# Files that start Python themselves: units, templates of jobs, launchers, scripts of the package.
LAUNCHERS = ("site_config", "job_templates", "contrib/ondemand", "contrib/packaging")
JOBS_NAME = "_dlqueue_probe."  # the probe's package in a job
DOTTED = re.compile(r"\bslurm_ext((?:\.\w+)+)")


def named(text: str) -> Iterator[str]:
    """Modules that a text names."""
    for name in DOTTED.findall(text):
        parts = name[1:].split(".")
        while parts and ".".join(parts) not in modules():
            parts.pop()
        if parts:
            yield ".".join(parts)


@cache
def roots() -> frozenset[str]:
    """Modules that something outside of Python's imports starts."""
    found = {*STARTS, *(module_of(name).__name__.removeprefix("slurm_ext.") for name in COMMANDS)}
    for path in (*_files(), *PACKAGE.rglob("*.sh"), *PACKAGE.rglob("*.service")):
        found |= set(named(path.read_text(encoding="utf-8", errors="replace")))
    return frozenset(found)


def _files() -> Iterator[Path]:
    for folder in LAUNCHERS:
        yield from (path for path in (ROOT / folder).rglob("*") if path.is_file())


@cache
def next_to(module: str) -> frozenset[str]:
    """Modules that `module` imports, or starts by a name in a string; packages above it as well."""
    parts = module.split(".")
    above = {".".join(parts[:end]) for end in range(1, len(parts))}
    return frozenset((above & modules().keys()) | imports(module) | set(_strings(module)))


def _strings(module: str) -> Iterator[str]:
    """Modules that a string, a completed string or a path of the module names."""
    tree = ast.parse(modules()[module].read_bytes())
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield from _completed(node)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            yield from _on_disk(node)
        elif isinstance(node, ast.Constant) and id(node) not in documents:
            yield from named(str(node.value).replace(JOBS_NAME, "slurm_ext.probe."))


def _completed(node: ast.JoinedStr) -> Iterator[str]:
    """Modules whose last part is filled in: f"slurm_ext.cli.simulate.{kind}"."""
    parts = [
        re.escape(str(p.value)) if isinstance(p, ast.Constant) else r"\w+" for p in node.values
    ]
    pattern = "".join(parts)
    if pattern.startswith(r"slurm_ext\."):
        yield from (name for name in modules() if re.fullmatch(pattern, f"slurm_ext.{name}"))


def _on_disk(node: ast.BinOp) -> Iterator[str]:
    """The module of a path such as `folder / "node" / "counters" / "sources.py"`."""
    parts: list[str] = []
    left: ast.expr = node
    while isinstance(left, ast.BinOp) and isinstance(left.right, ast.Constant):
        parts.insert(0, str(left.right.value))
        left = left.left
    if parts and parts[-1].endswith(".py"):
        name = ".".join(parts).removesuffix(".py")
        yield from (module for module in modules() if module == name)


def reached(starts: Iterable[str]) -> set[str]:
    """Every module that some start leads to."""
    found: set[str] = set()
    waiting = [*starts]
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += next_to(module)
    return found


def test_every_module_is_reached_from_a_start() -> None:
    """What nobody reaches is removed, or gets the command or the hook that it was written for."""
    assert sorted(modules().keys() - reached(roots())) == []


def test_a_module_that_only_a_test_imports_is_found() -> None:
    """The walk goes by what starts: without the launcher of ranks, its room is not reached."""
    without = reached(roots() - {"ranks.__main__", "ranks"})
    assert {"ranks.__main__", "ranks.layout"} <= modules().keys() - without
