"""Receive times that the advisor keeps: each user's own, by nobody else's runs."""

from collections.abc import Sequence

import numpy as np

from slurm_ext.advisor.evidence.own_receives import NEWEST, OwnReceives
from slurm_ext.advisor.evidence.runs import COLUMNS, LEVELS, NO_KEY, RunTable
from slurm_ext.core.records import LoaderRun
from tests.model.throughput.test_receiving import SERIAL, idle_workers


def kept(*notes: tuple[list[int], list[int]]) -> tuple[OwnReceives, list[list[int]]]:
    """The memory of these rows and owners, and the rows whose runs it asked for."""
    asked: list[list[int]] = []

    def runs_at(rows: Sequence[int]) -> list[LoaderRun]:
        asked.append(list(rows))
        return [idle_workers(0.001 + row / 10_000) for row in rows]

    memory = OwnReceives(runs_at, {"ada": 0, "bob": 1, "eve": 7, "kim": 5, "lee": 6})
    for rows, owners in notes:
        memory.note(np.array(rows, np.int64), np.array(owners, np.int32))
    return memory, asked


def test_the_newest_runs_of_each_owner_count() -> None:
    """However many others came between them, and newest first."""
    rows = list(range(100))
    memory, asked = kept((rows, [row % 2 for row in rows]), ([200, 201], [0, 7]))
    memory.of("ada")
    assert asked == [[200, *range(98, 98 - 2 * (NEWEST - 1), -2)]]
    assert memory.of("eve") != memory.of("ada")
    assert asked[1] == [201]


def test_nobody_has_none_and_what_is_known_is_not_made_again() -> None:
    """Until a new run of that owner arrives."""
    memory, asked = kept(([1, 2], [5, 6]))
    assert memory.of("") == memory.of("zoe") == memory.of("ada") == ()
    assert memory.of("kim") is memory.of("kim")
    assert len(asked) == 1
    memory.note(np.array([3], np.int64), np.array([6], np.int32))
    memory.of("kim")
    assert len(asked) == 1
    memory.note(np.array([4], np.int64), np.array([5], np.int32))
    memory.of("kim")
    assert asked[1:] == [[4, 1]]


def table_of(*runs: tuple[str | None, LoaderRun]) -> RunTable:
    """A table of runs and whose they are."""
    table = RunTable()
    rows = [[getattr(run, name) for name in COLUMNS[:-1]] for _, run in runs]
    values = np.array([[*row, 0.0] for row in rows], np.float64).astype(np.float32)
    values[:, -1] = [table.code(run.gpu_model) for _, run in runs]
    owners = np.array([table.owner(user) for user, _ in runs], np.int32)
    table.extend(values, [np.full(len(runs), NO_KEY, np.int64) for _ in LEVELS], owners)
    return table


def test_no_users_runs_move_another_users_times() -> None:
    """Bob has none by Ada's, and Ada's are the same whatever Bob runs; unknown users have none."""
    ada, bob = ("ada", idle_workers(0.001)), ("bob", idle_workers(0.006))
    alone = table_of(ada).receives.of("ada")
    both = table_of(bob, ada, (None, idle_workers(0.006)), bob)
    assert alone
    assert both.receives.of("ada") == alone != both.receives.of("bob")
    assert table_of(ada).receives.of("bob") == both.receives.of("") == ()
    assert table_of(("ada", SERIAL)).receives.of("ada") == ()
