"""The way into the job's Python: silent, chained, cheap, and absent where it should be."""

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SITE = Path(__file__).parents[2] / "slurm_ext" / "probe" / "site"
Environment = Callable[..., dict[str, str]]
Python = Callable[..., subprocess.CompletedProcess[str]]


def _interpreter(version: str) -> str | None:
    """A Python of this version: on the path, or under pyenv."""
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return str(pyenv[-1]) if pyenv else shutil.which(f"python{version}")


@pytest.fixture(params=["3.8", "3.9", "3.11", "3.12", "3.13", "3.14"])
def any_python(request: pytest.FixtureRequest) -> str:
    """Each Python from the oldest promised on, where this machine has it."""
    found = _interpreter(request.param)
    if found is None:
        pytest.skip(f"there is no Python {request.param} on this machine")
    return found


STATE = """
import json, sys
print(json.dumps({"path": sys.path, "modules": sorted(sys.modules),
                  "finders": [getattr(f, "__name__", type(f).__name__) for f in sys.meta_path],
                  "custom": getattr(sys.modules.get("sitecustomize"), "__file__", None)}))
"""


def test_without_a_run_folder_nothing_is_different(
    any_python: str, environment: Environment, python: Python, tmp_path: Path
) -> None:
    """No DLQUEUE_RUN_DIR: same path, modules, finders and sitecustomize as without our folder."""
    env = environment(tmp_path / "run")
    del env["DLQUEUE_RUN_DIR"]
    ours = python(["-c", STATE], env, any_python)
    plain = python(["-c", STATE], environment(None), any_python)
    assert (ours.stdout, ours.stderr) == (plain.stdout, "")


def test_a_job_without_torch_gains_one_finder(
    any_python: str, environment: Environment, python: Python, tmp_path: Path
) -> None:
    """In a job: nothing but a finder is added; no module is imported, nothing is written."""
    ours = json.loads(python(["-c", STATE], environment(tmp_path / "run"), any_python).stdout)
    plain = json.loads(python(["-c", STATE], environment(None), any_python).stdout)
    assert len(ours.pop("finders")) == len(plain.pop("finders")) + 1
    assert ours == plain
    assert list((tmp_path / "run").iterdir()) == []


@pytest.mark.parametrize("option", ["-I", "-E", "-S"])
def test_isolated_pythons_do_not_see_it(
    any_python: str, environment: Environment, python: Python, tmp_path: Path, option: str
) -> None:
    """`python -I`, -E and -S: as if there were no probe."""
    ours = python([option, "-c", STATE], environment(tmp_path / "run"), any_python)
    finders = json.loads(ours.stdout)["finders"]
    assert not any("_Finder" in finder for finder in finders)
    assert ours.stderr == ""


@pytest.mark.parametrize(
    "body",
    [
        "print('mine', __name__, __file__)",
        "raise RuntimeError('mine broke')",
        "raise SystemExit(3)",
        "import nowhere_to_be_found",
    ],
)
def test_another_sitecustomize_is_chained(
    any_python: str, environment: Environment, python: Python, tmp_path: Path, body: str
) -> None:
    """A sitecustomize further on the path does what it did, its errors and exit included."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text(body + "\n")
    env = environment(tmp_path / "run")
    env["PYTHONPATH"] += f":{other}"
    ours = python(["-c", "import sys; print(sys.path)"], env, any_python)
    plain = python(
        ["-c", "import sys; print(sys.path)"], environment(None, PYTHONPATH=str(other)), any_python
    )
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout)
    if "SystemExit" in body:  # fatal in site: Python adds a traceback, through our frame too
        assert ours.stderr.splitlines()[-1] == plain.stderr.splitlines()[-1]
    else:
        assert ours.stderr == plain.stderr


def test_a_working_folder_that_is_gone(
    any_python: str, environment: Environment, tmp_path: Path
) -> None:
    """With a relative PYTHONPATH there, Python ends as without us, and chains the user's own."""
    (tmp_path / "sitecustomize.py").write_text("print('mine')\n")
    gone = tmp_path / "gone"
    script = 'rmdir "$PWD"; exec "$0" -c "print(1)"'

    def run(env: dict[str, str], path: str) -> subprocess.CompletedProcess[str]:
        gone.mkdir()
        env["PYTHONPATH"] = f"{path}relative:{tmp_path}"
        argv = ["sh", "-c", script, any_python]
        return subprocess.run(
            argv, env=env, cwd=gone, capture_output=True, text=True, timeout=60, check=False
        )

    ours, plain = run(environment(tmp_path / "run"), f"{SITE}:"), run(environment(None), "")
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout)
    assert "sitecustomize" not in ours.stderr


@pytest.mark.parametrize(
    "body", ["", "raise ImportError('broken torch')", "class DataLoader: pass"]
)
def test_a_torch_it_does_not_know_is_left_alone(
    any_python: str, environment: Environment, python: Python, tmp_path: Path, body: str
) -> None:
    """A module of that name with other insides, or none: the import ends as it would have."""
    package = tmp_path / "lib" / "torch" / "utils" / "data"
    package.mkdir(parents=True)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").touch()
    (package / "dataloader.py").write_text(body + "\n")
    lib = str(tmp_path / "lib")
    env = environment(tmp_path / "run", DLQUEUE_NUM_WORKERS="2")
    env["PYTHONPATH"] += f":{lib}"
    code = "import torch.utils.data.dataloader as d; print(sorted(vars(d)))"
    ours = python(["-c", code], env, any_python)
    plain = python(["-c", code], environment(None, PYTHONPATH=lib), any_python)
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout)
    assert ours.stderr.splitlines()[-1:] == plain.stderr.splitlines()[-1:]


def test_a_python_2_says_nothing(environment: Environment, python: Python, tmp_path: Path) -> None:
    """It reads the file as every Python does; another sitecustomize on the path is its own."""
    found = _interpreter("2.7")
    if found is None:
        pytest.skip("there is no Python 2.7 on this machine")
    env = environment(tmp_path / "run", PYTHONDONTWRITEBYTECODE="1")
    (tmp_path / "sitecustomize.py").write_text("print('mine')\n")
    code = "import sys; print('sitecustomize' in sys.modules)"
    done = python(["-c", code], env, found)
    assert (done.stdout, done.stderr, done.returncode) == ("False\n", "", 0)
    env["PYTHONPATH"] += f":{tmp_path}"
    done = python(["-c", code], env, found)
    assert (done.stdout, done.stderr, done.returncode) == ("mine\nTrue\n", "", 0)


def test_what_a_python_2_reads_has_no_newer_syntax() -> None:
    """Where no Python 2 is at hand: no annotation, no f-string, no keyword-only argument."""
    tree = ast.parse((SITE / "sitecustomize.py").read_text())
    newer = (ast.AnnAssign, ast.JoinedStr, ast.Nonlocal, ast.AsyncFunctionDef, ast.NamedExpr)
    for node in ast.walk(tree):
        assert not isinstance(node, newer)
        assert not getattr(node, "annotation", None)
        assert not getattr(node, "returns", None)
        assert not getattr(node, "kwonlyargs", None)
    assert (SITE / "sitecustomize.py").read_bytes().isascii()


def test_every_file_compiles(any_python: str, environment: Environment, python: Python) -> None:
    """No syntax newer than the oldest Python that a job may use."""
    code = (
        "import pathlib, sys\n"
        "for p in sorted(pathlib.Path(sys.argv[1]).rglob('*.py')):\n"
        "    compile(p.read_text(), str(p), 'exec'); print(p.name)"
    )
    done = python(["-c", code, str(SITE.parent)], environment(None), any_python)
    assert done.returncode == 0, done.stderr
    assert "sitecustomize.py" in done.stdout.split()


def test_torch_free_parts_run_everywhere(
    any_python: str, environment: Environment, python: Python
) -> None:
    """What needs no torch imports and answers in every promised Python."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from probe import attach, lazy_workers, rules, session\n"
        "from probe.counters import machine\n"
        "from probe.inspection import dataset_inspection\n"
        "from probe.workers import gate, gated\n"
        "from probe.directive import Directive\n"
        "assert machine.cores() > 0 and machine.private_bytes() > 0 and machine.bytes_read() > 0\n"
        "assert next(gate.OpenWorkers(gate.Gate('/nowhere', 2))) == 0\n"
        "assert dataset_inspection.DatasetInspection([1]).unfit is None\n"
        "assert Directive({'DLQUEUE_NUM_WORKERS': '8'}).num_workers == 8; print('ok')"
    )
    done = python(["-c", code, str(SITE.parents[1])], environment(None), any_python)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


def test_children_inherit_the_path_unchanged(
    environment: Environment, python: Python, tmp_path: Path
) -> None:
    """The job's children inherit PYTHONPATH as the task prolog set it, unchanged."""
    env = environment(tmp_path / "run")
    code = "import os; print(os.environ['PYTHONPATH'])"
    assert python(["-c", code], env, sys.executable).stdout == f"{os.fspath(SITE)}\n"


@pytest.mark.parametrize(
    ("env", "threads"),
    [
        ({}, 1),
        ({"OMP_NUM_THREADS": "2"}, 2),
        ({"MKL_NUM_THREADS": "2"}, 2),
        ({"DLQUEUE_NUM_THREADS": "64"}, None),
    ],
)
def test_torch_keeps_its_threads_where_cpus_came_for_workers(
    env: dict[str, str],
    threads: int | None,
    environment: Environment,
    python: Python,
    tmp_path: Path,
) -> None:
    """As many as told and never more than its own; the user's word in the environment wins."""
    show = "import torch; from torch.utils.data import DataLoader; print(torch.get_num_threads())"
    own = threads or int(python(["-c", show], _without_words(environment(None))).stdout)
    told = {**_without_words(environment(tmp_path / "run")), "DLQUEUE_NUM_THREADS": "1", **env}
    assert int(python(["-c", show], told).stdout) == own


def _without_words(env: dict[str, str]) -> dict[str, str]:
    """The environment of somebody who says nothing of threads; other tests may have."""
    return {name: value for name, value in env.items() if not name.endswith("_NUM_THREADS")}
