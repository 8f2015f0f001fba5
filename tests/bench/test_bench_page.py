"""The benchmarks' page lists each of them, and each starts as the page says."""

import ast
import importlib
import re
from pathlib import Path

import pytest

from tests.house import BENCH

PROGRAMS = sorted(
    ".".join(path.parent.relative_to(BENCH).parts) for path in BENCH.rglob("__main__.py")
)


def test_every_benchmark_has_its_row() -> None:
    """A claim names its program; a program without a claim would be forgotten."""
    rows = re.findall(r"^\|[^|]+\| `([a-z_.]+)", (BENCH / "README.md").read_text(), re.MULTILINE)
    assert set(rows) == set(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_folder_states_its_question(name: str) -> None:
    """The first line of the package is the question that its program answers."""
    source = Path(BENCH, *name.split("."), "__init__.py").read_bytes()
    assert (ast.get_docstring(ast.parse(source)) or "").endswith("?")


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_last_line_has_the_name_to_run(name: str) -> None:
    """What `bench` says can be pasted behind `python -m contrib.bench.`."""
    folder = Path(BENCH, *name.split("."))
    assert any(f'"bench": "{name}"' in path.read_text() for path in folder.glob("*.py"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_can_be_tried_and_read_by_programs(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each takes --quick and --json."""
    monkeypatch.setattr("sys.argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"contrib.bench.{name}.__main__").main()
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "--quick" in shown
    assert "--json" in shown
