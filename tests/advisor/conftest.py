"""A running advisor for each test that asks for one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.advisor.a_service import Service


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A running advisor, ended with the test whatever happened to it."""
    service = Service(tmp_path).start()
    yield service
    if service.process is not None and service.process.poll() is None:
        service.stop()
