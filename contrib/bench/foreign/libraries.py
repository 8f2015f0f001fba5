"""The programs' libraries, in a virtual environment of their own beside this one's torch."""

import subprocess
import sys
import venv
from pathlib import Path

import torch

from contrib.bench.foreign.catalogue import LIBRARIES


def python_with_libraries(folder: Path) -> tuple[Path, dict[str, str]]:
    """The interpreter, and for each library that cannot be had, why; made once and kept."""
    python = folder / "bin" / "python"
    if not python.exists():
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
    print(f"{len(LIBRARIES)} libraries into {folder}: minutes, the first time", file=sys.stderr)
    if _install(python, *LIBRARIES) is None:
        return python, {}
    missing = {}
    for number, library in enumerate(LIBRARIES, 1):
        print(f"library {number} of {len(LIBRARIES)}: {library}", file=sys.stderr)
        why = _install(python, library)
        if why:
            missing[library] = why
    return python, missing


def _install(python: Path, *libraries: str) -> str | None:
    """None, or pip's last line."""
    same = f"torch=={torch.__version__.partition('+')[0]}"
    pip = [str(python), "-m", "pip", "install", "--quiet", same, *libraries]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no word"])[-1]


def has(python: Path, library: str) -> bool:
    """True if this interpreter finds the module, which is not imported."""
    ask = f"import importlib.util, sys; sys.exit(not importlib.util.find_spec({library!r}))"
    return subprocess.run([str(python), "-c", ask], check=False).returncode == 0
