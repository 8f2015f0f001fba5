"""Packages as the tree builds them."""

import subprocess
import sys
from pathlib import Path

from tests.a_site import LIBRARIES
from tests.manual import ROOT

VERSION, LATER = "0.1.0", "9.9.9"


def build(kinds: str, out: Path, *options: str) -> None:
    """`make KIND...` into `out`; Python packages are those of these tests, none is downloaded."""
    borrowed = out / "borrowed"
    borrowed.mkdir(parents=True, exist_ok=True)
    (borrowed / "borrowed.pth").write_text(f"{LIBRARIES}\n")
    command = [
        sys.executable,
        "-m",
        "contrib.packaging.packages",
        *kinds.split(),
        "--out",
        str(out),
    ]
    subprocess.run(
        [*command, "--libraries", str(borrowed), *options], cwd=ROOT, check=True, timeout=300
    )


def as_version(version: str, deb: Path, out: Path) -> None:
    """Make of it the same package as another version of it, in `out`."""
    tree = out / deb.stem
    tree.mkdir(parents=True)
    subprocess.run(["dpkg-deb", "-R", deb, tree], check=True)
    control = tree / "DEBIAN" / "control"
    control.write_text(control.read_text().replace(VERSION, version))
    subprocess.run(["dpkg-deb", "-Znone", "--build", tree, out], check=True)
