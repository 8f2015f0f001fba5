"""The package as a site gets it: a wheel, built without network from what git would track."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.manual import ROOT

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")

OURS = ("LICENSE", "README.md", "pyproject.toml", "slurm_ext")
SHARED = ("site_config", "job_templates", "contrib/ondemand", "contrib/schemas")


def sources(*under: str) -> list[str]:
    """Paths of the repository's files below `under`, those not committed yet among them."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *under]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def build(folder: Path) -> Path:
    """The wheel, made in `folder` from a copy of the sources."""
    source = _copied(folder / "source", *OURS, *SHARED)
    options = ("--no-deps", "--no-build-isolation", "--no-index", "-w", str(folder))
    subprocess.run([*PIP, "wheel", *options, str(source)], check=True, timeout=120)
    (made,) = folder.glob("*.whl")
    return made


def build_source(folder: Path) -> Path:
    """The source distribution, made in `folder` from a copy of the tree."""
    source = _copied(folder / "source", "*")
    code = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
    command = [sys.executable, "-c", code, str(folder)]
    subprocess.run(command, cwd=source, check=True, stdout=subprocess.DEVNULL, timeout=120)
    (made,) = folder.glob("*.tar.gz")
    return made


def _copied(folder: Path, *under: str) -> Path:
    for name in sources(*under):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder
