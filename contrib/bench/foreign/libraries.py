"""The programs' libraries, in a virtual environment of their own beside this one's torch."""

import subprocess
import sys
import venv
from functools import partial
from pathlib import Path

import torch

from contrib.bench.common.kept_steps import KeptSteps
from contrib.bench.foreign.catalogue import LIBRARIES


def python_with_libraries(folder: Path) -> tuple[Path, dict[str, str]]:
    """The interpreter, and for each library that cannot be had, why; made once and kept."""
    python = folder / "bin" / "python"
    if not python.exists():
        _made(folder)
    kept = KeptSteps(folder / "libraries.json", torch.__version__)
    why = {}
    for number, library in enumerate(LIBRARIES, 1):
        say = f"library {number} of {len(LIBRARIES)}: {library}"
        why[library] = kept.step(library, partial(_installed, python, library, say))["why"]
    return python, {library: clause for library, clause in why.items() if clause}


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


def _installed(python: Path, library: str, say: str) -> dict[str, str | None]:
    """One at a time: for all of them together pip looks for minutes, and may find nothing."""
    print(say, file=sys.stderr, flush=True)
    return {"why": _install(python, library)}


def _install(python: Path, library: str) -> str | None:
    """None, or pip's last line."""
    same = f"torch=={torch.__version__.partition('+')[0]}"
    pip = [str(python), "-m", "pip", "install", "--quiet", same, library]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no word"])[-1]


def has(python: Path, library: str) -> bool:
    """True if this interpreter finds the module, which is not imported."""
    ask = f"import importlib.util, sys; sys.exit(not importlib.util.find_spec({library!r}))"
    return subprocess.run([str(python), "-c", ask], check=False).returncode == 0
