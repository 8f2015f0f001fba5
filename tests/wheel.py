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
    source = folder / "source"
    for name in sources(*OURS, *SHARED):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, source / name)
    options = ("--no-deps", "--no-build-isolation", "--no-index", "-w", str(folder))
    subprocess.run([*PIP, "wheel", *options, str(source)], check=True, timeout=120)
    (made,) = folder.glob("*.whl")
    return made
