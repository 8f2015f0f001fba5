"""The programs' libraries, in virtual environments of their own beside this one's torch."""

import subprocess
import sys
import venv
from functools import partial
from pathlib import Path

import torch

from contrib.bench.common.kept_steps import KeptSteps
from contrib.bench.foreign.catalogue import LIBRARIES, OLDER_LIBRARIES, is_older
from contrib.bench.foreign.program import Program


def interpreters(
    programs: list[Program], folder: Path
) -> tuple[dict[Program, Path], dict[str, str]]:
    """For each program the interpreter that has its library; why one cannot run, or be had."""
    pythons = dict.fromkeys(programs, Path(sys.executable))
    skipped: dict[str, str] = {}
    for older, libraries in ((False, LIBRARIES), (True, OLDER_LIBRARIES)):
        theirs = [one for one in programs if one.library and is_older(one) == older]
        if theirs:
            where = folder.with_name(f"{folder.name}-older") if older else folder
            python, missing = _python_with(libraries, where)
            pythons |= dict.fromkeys(theirs, python)
            skipped |= {f"library {name}": why for name, why in missing.items()}
            skipped |= {one.name: "not installed" for one in theirs if not _has(python, one)}
    return pythons, skipped


def _python_with(libraries: tuple[str, ...], folder: Path) -> tuple[Path, dict[str, str]]:
    """The interpreter, and for each library that cannot be had, why; made once and kept."""
    python = folder / "bin" / "python"
    if not python.exists():
        _made(folder)
    conditions = f"{torch.__version__} {' '.join(libraries)}"
    kept = KeptSteps(folder / "libraries.json", conditions)
    print(f"{len(libraries)} libraries in {folder}: minutes, the first time", file=sys.stderr)
    if kept.step("together", partial(_installed, python, *libraries))["why"] is None:
        return python, {}
    alone = {one: kept.step(one, partial(_installed, python, one))["why"] for one in libraries}
    return python, {library: why for library, why in alone.items() if why}


def _made(folder: Path) -> None:
    venv.create(folder, with_pip=True)
    (site,) = folder.glob("lib/python*/site-packages")
    ours = Path(torch.__file__).parents[1]
    for name in [
        ours / "torch",
        *ours.glob("torchgen"),
        *ours.glob("functorch"),
        *ours.glob("torch-*.dist-info"),
    ]:
        (site / name.name).symlink_to(name)
    _installed(folder / "bin" / "python", "pip>=26")  # 23 looks for minutes, and finds others


def _installed(python: Path, *libraries: str) -> dict[str, str | None]:
    """`why` not: pip's last line; None: they are there."""
    print(f"installing {' '.join(libraries)}"[:99], file=sys.stderr, flush=True)
    same = f"torch=={torch.__version__.partition('+')[0]}"
    pip = [str(python), "-m", "pip", "install", "--quiet", same, *libraries]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    last = (done.stderr.strip().splitlines() or ["no word"])[-1]
    return {"why": None if done.returncode == 0 else last}


def _has(python: Path, program: Program) -> bool:
    """True if this interpreter finds the program's library, which is not imported."""
    found = f"importlib.util.find_spec({program.library!r})"
    ask = f"import importlib.util, sys; sys.exit(not {found})"
    return subprocess.run([str(python), "-c", ask], check=False).returncode == 0
