"""The advisor's memory follows scripts and users, not the number of their runs."""

import gc
import json
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrib.bench.common import synthetic_history
from slurm_ext.advisor.evidence import runs as runs_module
from slurm_ext.advisor.evidence.runs import COLUMNS, LEVELS, NEWEST, RunTable
from slurm_ext.advisor.pipeline.journal import Journal
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.advisor.service.refresh import Refresher
from slurm_ext.core.records import Level
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.wire import encode_request
from tests.builders import STARVED

SCRIPTS = 20
Load = list[tuple[int, int, int]]  # key of the script, of the kind, owner
_WORKERS = COLUMNS.index("workers")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table is made smaller with every few rows, and sorted as large ones are."""
    monkeypatch.setattr(runs_module, "_SPARE", 2)
    monkeypatch.setattr(runs_module, "_BULK", 7)


def extended(table: RunTable, load: Load) -> None:
    """Rows of these keys and owners, numbered by their workers."""
    row = [getattr(STARVED, name) for name in COLUMNS[:-1]]
    values = np.array([[*row, None]] * len(load), np.float32)
    values[:, _WORKERS] = np.arange(len(table), len(table) + len(load))
    columns = {Level.SCRIPT: 0, Level.KIND: 1, Level.CLUSTER: None}
    keys = [np.zeros(len(load), np.int64) for _ in LEVELS]
    for level, place in columns.items():
        keys[LEVELS.index(level)][:] = [1 if place is None else row[place] for row in load]
    table.extend(values, keys, np.array([owner for _, _, owner in load], np.int32))


def told(table: RunTable, key: int) -> dict[Level, list[int]]:
    """Numbers of the runs that an answer on this key rests on."""
    found = table.newest({Level.SCRIPT: key, Level.KIND: key, Level.CLUSTER: 1})
    return {level: [run.workers for run in runs] for level, runs in found.items()}


_ROW = st.tuples(st.integers(-2, 2), st.integers(0, 2), st.integers(0, 3))


@given(st.lists(st.lists(_ROW, min_size=1, max_size=60), min_size=1, max_size=8))
def test_answers_rest_on_the_same_runs(loads: list[Load]) -> None:
    """Of every level, whether a table keeps all rows or only those that are reached."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs_module, "_MOST_WALKED", 24)
        whole, small = RunTable(), RunTable()
        for load in loads:
            extended(whole, load)
            extended(small, load)
            small = small.compacted()
            for key in range(-2, 3):
                assert told(small, key) == told(whole, key)
            for owner in range(4):
                whole.owner(f"u{owner}")
                small.owner(f"u{owner}")
                assert small.receives.of(f"u{owner}") == whole.receives.of(f"u{owner}")
        assert len(small) == len(whole)


def test_rows_are_held_by_key_and_not_by_run() -> None:
    """Twenty thousand runs of three scripts and users: a hundred times as many as are reached."""
    table, most = RunTable(), 0
    for turn in range(200):
        extended(table, [(number % 3 + 1, 0, turn % 3) for number in range(100)])
        table = table.compacted()
        most = max(most, table.held)
    assert len(table) == 20_000
    assert most <= 1.25 * (256 + 3 * NEWEST + 3 * NEWEST) + 100


def test_a_table_that_was_left_is_free_at_once() -> None:
    """Without a collection of garbage: each has as many rows as the next."""
    table = RunTable()
    extended(table, [(1, 1, 0)] * 500)
    old = weakref.ref(table)
    gc.disable()
    try:
        table = table.compacted()
        assert old() is None
    finally:
        gc.enable()
    assert (len(table), table.held) == (500, 256)


def answers(folder: Path, *, keeps_all: bool = False) -> tuple[list[bytes], Advisor]:
    """An advisor's words on each script of the history there."""
    settings = Settings(values={"site.mode": "act", "paths.state_dir": str(folder)})
    advisor = Advisor(settings, Journal(folder / "journal"))
    with pytest.MonkeyPatch.context() as patch:
        if keeps_all:
            patch.setattr(RunTable, "compacted", lambda table: table)
        Refresher(advisor, None).refresh()
    jobs = [synthetic_history.submission(number) for number in range(SCRIPTS)]
    lines = [encode_request("predict", replace(job, tres_per_node="gres/gpu:1")) for job in jobs]
    return [advisor.reply(line, trusted=True)[0] for line in lines], advisor


def filled(folder: Path, runs: int) -> Path:
    """A history of so many runs of the same scripts."""
    folder.mkdir()
    synthetic_history.fill(folder / "history.db", runs, scripts=SCRIPTS)
    return folder


def test_ten_times_the_history_takes_no_more_memory(tmp_path: Path) -> None:
    """Over the same scripts: as many rows, whose answers are those of an advisor that has all."""
    (_, short), (_, long) = (
        answers(filled(tmp_path / name, runs)) for name, runs in (("short", 3000), ("long", 30_000))
    )
    assert len(long.runs) == 10 * len(short.runs) == 30_000
    reached = SCRIPTS * (256 + 4 * NEWEST) + 256
    assert short.runs.held <= reached
    assert long.runs.held <= 1.25 * reached


def test_decisions_are_those_of_an_advisor_that_keeps_every_run(tmp_path: Path) -> None:
    """Byte by byte, on every script of a long history."""
    folder = filled(tmp_path / "history", 12_000)
    some, advisor = answers(folder)
    every, other = answers(folder, keeps_all=True)
    assert other.runs.held == 12_000 > 1.5 * advisor.runs.held
    assert some == every
    levels = {json.loads(answer)["level"] for answer in some}
    assert levels == {Level.SCRIPT_ARGS}
