"""Packages as the tree builds them, and a machine to install them on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.a_site import LIBRARIES
from tests.once import once
from tests.packages.building import LATER, as_version, build
from tests.packages.machine import Machine, private_machine


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with debs and rpms of all, and in `later` two debs of a later version."""
    return once(tmp_path_factory, "packages", _make)


def _make(out: Path) -> None:
    build("deb rpm", out)
    for name in ("node", "advisor"):
        as_version(LATER, next(out.glob(f"dlqueue-{name}_*.deb")), out / "later")


@pytest.fixture
def machine(tmp_path: Path, packages: Path) -> Iterator[Machine]:
    """This one, without dlqueue."""
    with private_machine(tmp_path, packages, LIBRARIES) as made:
        yield made
