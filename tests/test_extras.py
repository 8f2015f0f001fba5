"""A plain `pip install dlqueue` is light: what an extra brings is asked for where it is used."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house import modules, place_of
from tests.manual import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IMPORTED_AS = {"pillow": "PIL", "scikit-learn": "sklearn"}
WITH_ANOTHER = {"markupsafe"}  # comes with jinja2
# The job's own: who writes a program with these rooms has them. (`dlqueue train` asks for torch.)
THE_USERS_OWN = {
    "probe": {"torch"},
    "ranks": {"mpi4py", "torch"},
    "spatial": {"h5py", "torch", "zarr"},
    "training": {"torch"},
}
EXTRAS = ("pairs", "plots", "train")


def brought(needs: list[str]) -> set[str]:
    """Names by which the packages of a list are imported."""
    names = [re.split(r"[<>=]", need)[0] for need in needs]
    return {IMPORTED_AS.get(name, name.replace("-", "_")) for name in names}


PLAIN = brought(PROJECT["dependencies"]) | WITH_ANOTHER
BROUGHT = {extra: brought(PROJECT["optional-dependencies"][extra]) for extra in EXTRAS}


def unguarded(node: ast.AST, extra: str = "") -> Iterator[tuple[str, str]]:
    """Imports at run time, each with the extra of the `with Extra(...)` that it stands in."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Try) and any("ImportError" in ast.unparse(h) for h in node.handlers):
        return
    if isinstance(node, ast.With):
        asked = re.findall(r"^Extra\('(\w+)'\)", ast.unparse(node.items[0]))
        extra = asked[0] if asked else extra
    if isinstance(node, ast.Import):
        yield from ((alias.name.partition(".")[0], extra) for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        yield str(node.module).partition(".")[0], extra
    for child in ast.iter_child_nodes(node):
        yield from unguarded(child, extra)


def test_an_import_is_plain_or_says_which_extra_it_needs() -> None:
    """Nobody meets a traceback because a package is absent that only some commands need."""
    for module, path in modules().items():
        room, _ = place_of(module)
        known = {*sys.stdlib_module_names, *PLAIN, *THE_USERS_OWN.get(room, ()), "slurm_ext"}
        for name, extra in unguarded(ast.parse(path.read_bytes())):
            assert name in known or name in BROUGHT.get(extra, ()), (
                f"{module}: {name} outside of `with Extra(...)`"
            )


def test_all_is_every_extra_of_a_command() -> None:
    """`dlqueue[all]` is what the README's two commands install."""
    assert PROJECT["optional-dependencies"]["all"] == [f"dlqueue[{','.join(EXTRAS)}]"]


@pytest.fixture(scope="module")
def plain_program(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command where no extra is installed: its packages are there, and cannot be imported."""
    absent = sorted(set().union(*BROUGHT.values()) - PLAIN)
    program = tmp_path_factory.mktemp("plain") / "dlqueue.py"
    program.write_text(
        f"import sys\nsys.modules |= dict.fromkeys({absent})\n"
        "from slurm_ext.cli import main\nsys.exit(main())\n"
    )
    return [sys.executable, str(program)]


TRACE = "job,submit_s,duration_s,gpus\na,0,10,1\nb,1,20,1\n"


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        ("report --output report.html", "plots"),
        ("simulate trace.csv --html page.html", "plots"),
        ("explain 1 --html page.html", "plots"),
        ("profile --html page.html -- true", "plots"),
        ("control --pairs", "pairs"),
        ("train", "train"),
        ("demo", "train"),
    ],
)
def test_a_command_names_the_extra_that_it_lacks(
    words: str, extra: str, plain_program: list[str], tmp_path: Path
) -> None:
    """One line, before any work: what is absent, and what to type."""
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "dlqueue.toml").write_text(
        f'[sharing]\npairing = "shadow"\n[paths]\nstate_dir = "{tmp_path}"\n'
    )
    done = subprocess.run(
        [*plain_program, *words.split()],
        cwd=tmp_path,
        env={"DLQUEUE_CONFIG": str(tmp_path / "dlqueue.toml"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"pip install 'dlqueue[{extra}]'" in done.stderr


@pytest.mark.parametrize(
    "words", ["simulate trace.csv --nodes 1", "completion bash", "man", "config"]
)
def test_a_command_that_needs_none_works_without(
    words: str, plain_program: list[str], tmp_path: Path
) -> None:
    """Completion and manual are made from every command, so every command can be imported."""
    (tmp_path / "trace.csv").write_text(TRACE)
    done = subprocess.run(
        [*plain_program, *words.split()], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
