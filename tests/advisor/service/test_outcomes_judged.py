"""Outcomes are judged whatever a look met, and judging them leaves time for all else."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.advisor.pipeline.journal import Journal
from slurm_ext.advisor.service import refresh
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.advisor.service.refresh import Refresher
from slurm_ext.core.settings.document import Settings
from slurm_ext.history.store import schema
from slurm_ext.history.store.store import open_history
from tests.advisor.service.test_outcomes_bite import JOB, MISSES, ran, submitted

LOOKS = 20


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        """Return seconds since some start."""
        return self.now_s


@pytest.fixture
def advisor(tmp_path: Path) -> Advisor:
    """One that acts, over a state folder without a history."""
    values = {"paths.state_dir": str(tmp_path), "site.mode": "act", "policy.holdout_share": 0.0}
    return Advisor(Settings(values=values), Journal(tmp_path / "journal"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The one that looks go by."""
    made = Clock()
    monkeypatch.setattr(refresh, "time", made)
    return made


def is_stopped(advisor: Advisor) -> bool:
    """True if a submission stays as it was written."""
    return "DLQUEUE_NUM_WORKERS" not in submitted(advisor)["edits"]["env"]


def test_a_history_looked_at_before_its_upgrade_stops_scripts_all_the_same(
    advisor: Advisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The advisor looks before the history writer has migrated, at every such upgrade."""
    at = schema.MIGRATIONS.index(schema.two_worlds)
    with monkeypatch.context() as older:
        older.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:at])
        with open_history(tmp_path / "history.db") as history:
            for number in (1, 2, 3):
                ran(history, number, MISSES)
    refresher = Refresher(advisor, None)
    refresher.refresh()
    assert "history" in refresher.faults()
    open_history(tmp_path / "history.db").close()
    refresher.refresh()
    assert refresher.faults() == {}
    assert is_stopped(advisor)


def test_outcomes_that_could_not_be_judged_are_at_the_next_look(
    advisor: Advisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One failure, with nothing new behind it, makes nobody's outcomes forgotten."""
    refresher = Refresher(advisor, None)
    with open_history(tmp_path / "history.db") as history:
        for number in (1, 2, 3):
            ran(history, number, MISSES)
    with monkeypatch.context() as failing:
        failing.setattr(refresh, "fair_outcomes", lambda *_: 1 / 0)
        refresher.refresh()
    assert not is_stopped(advisor)
    refresher.refresh()
    assert is_stopped(advisor)


def test_judging_takes_a_twentieth_of_the_time_and_misses_nobody(
    advisor: Advisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """With outcomes at every look, each a second after the other, and judging as slow as that."""
    calls: list[int] = []
    real = Refresher._calibrate

    def slow(self: Refresher, history: Any, last_id: int) -> None:
        calls.append(last_id)
        clock.now_s += 1.0
        real(self, history, last_id)

    monkeypatch.setattr(Refresher, "_calibrate", slow)
    refresher = Refresher(advisor, None)
    with open_history(tmp_path / "history.db") as history:
        for number in range(1, LOOKS + 1):
            user = f"user{number}"
            ran(history, number, MISSES, replace(JOB, user_name=user))
            refresher.refresh()
            clock.now_s += refresh.EVERY_S
    assert len(calls) in (1, 2)
    clock.now_s += LOOKS
    refresher.refresh()
    refresher.refresh()
    assert len(calls) in (2, 3)
    assert set(advisor.standings.users) == {f"user{number}" for number in range(1, LOOKS + 1)}


def test_a_small_history_is_judged_at_each_look(
    advisor: Advisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """Less than a twentieth of the time between two looks needs no rest."""
    calls: list[int] = []

    def quick(_self: Refresher, _history: object, last_id: int) -> None:
        calls.append(last_id)
        clock.now_s += refresh.EVERY_S / 20

    monkeypatch.setattr(Refresher, "_calibrate", quick)
    refresher = Refresher(advisor, None)
    with open_history(tmp_path / "history.db") as history:
        for number in (1, 2, 3):
            ran(history, number, MISSES)
            refresher.refresh()
            refresher.refresh()
    assert calls == [0, 1, 2]
