"""What a site installs is whole."""

import importlib.metadata
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tests.wheel import SHARED, build_source, sources

ROOT = Path(__file__).parent.parent
LOCKED = ROOT / "contrib" / "packaging" / "locked.txt"
EXTRAS = {extra: LOCKED.with_name(f"locked-{extra}.txt") for extra in ("pairs", "plots", "train")}
DEBIANS = "3.11.2"
BUILD = {"pip", "setuptools"}  # what builds dlqueue is locked as well


def versions(path: Path) -> dict[str, str]:
    """Version of each package that a file pins, by its normal name."""
    pins = re.findall(r"^([\w.-]+)==([^ ;\n]+)", path.read_text(), re.MULTILINE)
    return {normal(name): version for name, version in pins}


def normal(name: str) -> str:
    """Name of a package as all writings of it are compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("path", [LOCKED, *EXTRAS.values()], ids=lambda path: path.stem)
def test_every_locked_file_has_a_hash(path: Path) -> None:
    """`pip install --require-hashes` takes the whole list: no package, and no line, without one."""
    entries = re.split(r"\n(?=\S)", path.read_text().strip())
    packages = [entry.strip() for entry in entries if not entry.startswith("#")]
    assert packages
    for entry in packages:
        assert re.fullmatch(r"[\w.-]+==\S+( \\\n    --hash=sha256:[0-9a-f]{64})+", entry), entry


def test_the_tested_versions_run_on_debians_python() -> None:
    """Debian 12 has Python 3.11.2, and its users no other."""
    tested = {normal(name) for name in versions(ROOT / "constraints.txt")}
    needs = {
        one.name: one.metadata["Requires-Python"] or ""
        for one in importlib.metadata.distributions()
        if normal(one.name) in tested
    }
    assert len(needs) > 40
    assert {name: need for name, need in needs.items() if DEBIANS not in SpecifierSet(need)} == {}


def test_the_locked_versions_are_the_tested_ones() -> None:
    """What a site installs by hash is what the tests run with, and all that dlqueue needs."""
    tested, locked = versions(ROOT / "constraints.txt"), versions(LOCKED)
    assert {name: tested.get(name) for name in set(locked) - BUILD} == {
        name: version for name, version in locked.items() if name not in BUILD
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {normal(re.split(r"[<>=]", need)[0]) for need in project["dependencies"]}
    assert needed | BUILD <= set(locked)


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_locked_but_for_torch(extra: str) -> None:
    """In the tested versions, from locked files; only PyTorch's index is a site's own."""
    tested, locked = versions(ROOT / "constraints.txt"), versions(EXTRAS[extra])
    assert locked.items() <= tested.items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {normal(re.split(r"[<>=]", n)[0]) for n in project["optional-dependencies"][extra]}
    assert needed - set(locked) <= {"torch"}


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    """Lua, templates, the probe's site folder and all that a site copies travel with it."""
    names = zipfile.ZipFile(wheel).namelist()
    assert set(sources("slurm_ext")) <= set(names)
    shared = {name.partition("/share/dlqueue/")[2] for name in names}
    assert set(sources(*SHARED)) <= shared
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"slurm_ext", "dlqueue"}


def test_the_source_distribution_makes_wheel_and_packages(tmp_path: Path) -> None:
    """All that the wheel has, the pages, and what `make deb` and its like read; no tests."""
    with tarfile.open(build_source(tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert set(sources("slurm_ext", *SHARED, "contrib/packaging")) <= names
    assert {"Makefile", "INSTALL.md", "LICENSE", "constraints.txt", "pyproject.toml"} <= names
    assert not [name for name in names if name.startswith("tests")]
