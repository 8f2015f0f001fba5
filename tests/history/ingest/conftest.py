"""Fixtures of the tests of ingest."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_ext.core.actions import encode_action
from slurm_ext.history.store.store import History, open_history
from tests.history.ingest.ingest_examples import action


@pytest.fixture
def history(database: Path) -> Iterator[History]:
    """An empty history."""
    with open_history(database) as found:
        yield found


@pytest.fixture
def ledger(history: History) -> Path:
    """A file of the first day of 1970, with one action."""
    folder = history.path.parent / "moves"
    folder.mkdir()
    path = folder / "queue-19700101.jsonl"
    path.write_text(encode_action(action("a")))
    return path
