"""Python packages of a package, from the locked files: installed by pip, each by its hash."""

import re
import subprocess
import sys
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from contrib.packaging.packages.contents import PACKAGES, ROOT, Package

LOCKED = ROOT / "contrib" / "packaging"
_TO_BUILD = {"setuptools"}  # is locked as well, and no part of what runs
_PURE_SOURCE = "argparse-manpage"  # is published without a wheel, and the same for every Python
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")


def install(package: Package, python: str, cache: Path) -> Path:
    """A folder with the package's Python packages for `python`; one of before is used again."""
    lines = "\n".join(_entries(package)) + "\n"
    name = f"{package.name}-{python}-{sha256(lines.encode()).hexdigest()[:12]}"
    folder, wanted = cache / name, cache / f"{name}.txt"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        wanted.write_text(lines)
        part = cache / f"{name}.part"
        options = ("--no-compile", "--upgrade", "--target", str(part))
        subprocess.run(_command("install", python, [wanted], *options), check=True)
        part.rename(folder)
    return folder


def download(python: str, extras: Iterable[str], folder: Path) -> None:
    """All that `pip install --no-index` needs elsewhere, and this dlqueue itself."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [LOCKED / "locked.txt", *(LOCKED / f"locked-{extra}.txt" for extra in extras)]
    for file in files:
        (folder / file.name).write_bytes(file.read_bytes())
    subprocess.run(_command("download", python, files, "--dest", str(folder)), check=True)
    # The wheel from its source: build/ may have what the tree has no more.
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], check=True)


def _command(verb: str, python: str, files: Iterable[Path], *options: str) -> list[str]:
    """Words of a pip for another Python than its own: what is compiled has to be a wheel."""
    kinds = ("--only-binary=:all:", f"--no-binary={_PURE_SOURCE}")
    taken = ("--require-hashes", "--no-deps", *kinds, "--python-version", python)
    return [*_PIP, verb, *taken, *options, *(word for f in files for word in ("-r", str(f)))]


def _entries(package: Package) -> list[str]:
    """Entries of the package's locked files that no package below it brings."""
    below = list(PACKAGES.values())[: list(PACKAGES.values()).index(package)]
    brought = {_name(entry) for other in below for entry in _locked(other)}
    return [entry for entry in _locked(package) if _name(entry) not in brought | _TO_BUILD]


def _locked(package: Package) -> Iterable[str]:
    for file in package.locked:
        entries = re.split(r"\n(?=\S)", (LOCKED / file).read_text(encoding="utf-8").strip())
        yield from (entry.strip() for entry in entries if not entry.startswith("#"))


def _name(entry: str) -> str:
    return entry.partition("==")[0]
