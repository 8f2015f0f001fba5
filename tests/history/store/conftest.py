"""Fixtures of these tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_ext.history.store.store import History, open_history


@pytest.fixture
def history(database: Path) -> Iterator[History]:
    """An empty one."""
    with open_history(database) as found:
        yield found
