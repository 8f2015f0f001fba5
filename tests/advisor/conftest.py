"""A running advisor for each test that asks for one, or for each file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.advisor.a_service import Service


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A running advisor, ended with the test whatever happened to it."""
    yield from _running(tmp_path)


@pytest.fixture(scope="module")
def shared_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A running advisor for all tests of a file that leave it as it was."""
    yield from _running(tmp_path_factory.mktemp("service"))


def _running(folder: Path) -> Iterator[Service]:
    service = Service(folder).start()
    yield service
    if service.process is not None and service.process.poll() is None:
        service.stop()
