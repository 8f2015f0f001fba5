"""An environment of its own into which the tree is installed: seconds of pip, and megabytes."""

import subprocess
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path
from time import monotonic
from typing import Any

ROOT = Path(__file__).parents[3]
BASE = {"numpy", "pip", "setuptools", "wheel"}
MOST_S = 900.0


def installed(folder: Path) -> dict[str, Any]:
    """Seconds of pip, MB of each package beside BASE, and their sum; or why there is none."""
    python = folder / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    began = monotonic()
    command = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", str(ROOT)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=MOST_S)
    except subprocess.TimeoutExpired:
        return {"why": f"pip took more than {MOST_S:g} s"}
    if done.returncode:
        return {"why": (done.stderr.strip().splitlines() or ["pip failed"])[-1]}
    seconds = monotonic() - began
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    sizes = {one.name: _size(one) for one in distributions(path=[str(packages)])}
    beside = {name: size for name, size in sizes.items() if name.lower() not in BASE}
    return {
        "pip_s": round(seconds, 1),
        "mb_beside_numpy": round(sum(beside.values()), 1),
        "mb": {name: round(size, 1) for name, size in sorted(beside.items())},
    }


def _size(package: Distribution) -> float:
    """Megabytes of its files that are there."""
    paths = [Path(str(file.locate())) for file in package.files or ()]
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6
