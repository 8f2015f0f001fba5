"""The report on an SQLite that was built without mathematics."""

import math
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import pytest

from slurm_ext.core.settings.document import load
from slurm_ext.history.store.store import open_history
from slurm_ext.history.views import gain
from slurm_ext.report.sections.build import SECTIONS, report_of


def absent(_: Any) -> NoReturn:
    """A function that SQLite does not have fails at each use, as this one does."""
    raise NotImplementedError


def test_all_sections_are_made_without_sqlites_mathematics(whole_history: Path) -> None:
    """An SQLite without `ln` and `floor` gives the same report as one with them."""
    settings = load(whole_history / "dlqueue.toml")
    with open_history(whole_history / "history.db", read_only=True) as history:
        usual = report_of(history, settings, now_s=2e9)
        for name in ("ln", "floor"):
            history.conn.create_function(name, 1, absent)
        report = report_of(history, settings, now_s=2e9)
    assert len(report.sections) == len(SECTIONS)
    assert [section.answer for section in report.sections] == [s.answer for s in usual.sections]


@pytest.mark.parametrize("value", [None, 3, -3, 2.5, -2.5, -0.0, 1e300, math.inf, -math.inf])
def test_our_floor_is_sqlites(value: float | None) -> None:
    """The largest whole number that is not larger; nothing stays nothing."""
    with closing(sqlite3.connect(":memory:")) as conn:
        try:
            (theirs,) = conn.execute("SELECT floor(?)", (value,)).fetchone()
        except sqlite3.OperationalError:
            pytest.skip("this SQLite has none")
    assert gain._floor(value) == theirs
