"""Histories of before had the whole job's CPUs and memory in the record of each node."""

from pathlib import Path
from typing import Any

import pytest

from slurm_ext.history.store import schema
from slurm_ext.history.store.store import History, open_history
from tests.history.conftest import add_run

GIB = 1 << 30


def before(database: Path, monkeypatch: pytest.MonkeyPatch, *runs: dict[str, Any]) -> None:
    """A history as the version before left it."""
    earlier = schema.MIGRATIONS[: schema.MIGRATIONS.index(schema.parts_of_nodes)]
    with monkeypatch.context() as patched:
        patched.setattr(schema, "MIGRATIONS", earlier)
        with open_history(database) as history:
            for number, columns in enumerate(runs, 1):
                add_run(history.conn, number, **columns)


def held(history: History) -> list[tuple[int | None, int | None]]:
    """CPUs and memory of each run."""
    return history.conn.execute("SELECT cpus, mem_bytes FROM runs ORDER BY id").fetchall()


def test_a_nodes_record_gets_its_part(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What each node wrote of the whole job is divided by its nodes, and that once."""
    job = {"job_id": 7, "num_nodes": 4, "cpus": 128}
    first, other = {**job, "mem_bytes": 8 * GIB}, {**job, "source": "node"}
    before(database, monkeypatch, first, job, other, {"num_nodes": 2, "cpus": 5})
    for _ in range(2):
        with open_history(database) as history:
            assert held(history) == [(32, 2 * GIB), (32, None), (32, None), (2, None)]


@pytest.mark.parametrize(
    "columns",
    [
        {"num_nodes": 2, "source": "sacct"},
        {"num_nodes": 2, "source": "reconcile"},
        {"num_nodes": 1},
        {"num_nodes": None},
        {"num_nodes": 0},
    ],
)
def test_what_was_one_nodes_stays(
    database: Path, monkeypatch: pytest.MonkeyPatch, columns: dict[str, Any]
) -> None:
    """Slurm's own figures were divided as they came, and a job on one node has no other part."""
    before(database, monkeypatch, {**columns, "cpus": 6, "mem_bytes": GIB})
    with open_history(database) as history:
        assert held(history) == [(6, GIB)]


def test_what_was_not_known_stays_unknown(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No CPUs are no CPUs; less than one for each node is one."""
    before(database, monkeypatch, {"num_nodes": 2}, {"num_nodes": 4, "cpus": 3})
    with open_history(database) as history:
        assert held(history) == [(None, None), (1, None)]
