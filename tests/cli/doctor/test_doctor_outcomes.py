"""`doctor` on a history: what outcomes keep from being changed, and what was dropped."""

from pathlib import Path

import pytest

from slurm_ext.cli.doctor.finding import Finding
from slurm_ext.cli.doctor.state import state
from slurm_ext.core.settings.document import Settings
from slurm_ext.history.store.store import History, open_history
from tests.history.conftest import add_decision, add_run, insert

SITE = "none of the newest jobs here ran as predicted"


def findings(folder: Path) -> dict[str, Finding]:
    """What `doctor` says of the state folder, by name."""
    settings = Settings(values={"paths.state_dir": str(folder)})
    return {finding.name: finding for finding in state(settings)}


def an_outcome(history: History, number: int, user: str, achieved: float) -> None:
    """Between 80 and 120 samples/s were predicted."""
    token = f"d1-{number:016x}"
    add_decision(
        history.conn,
        token,
        state="claimed",
        job_id=number,
        user=user,
        key_script=number,
        level="same script",
        before_samples_per_s=100.0,
        before_low=80.0,
        before_high=120.0,
        after_samples_per_s=100.0,
    )
    add_run(history.conn, number, job_id=number, decision=token, user=user)
    insert(history.conn, "loader_runs", run=number, samples_per_s=achieved)


@pytest.mark.parametrize(
    ("achieved", "status", "seen"),
    [(30.0, "warn", SITE), (100.0, "ok", "0 scripts left as written")],
)
def test_a_site_where_nothing_is_as_predicted_is_warned(
    tmp_path: Path, achieved: float, status: str, seen: str
) -> None:
    """Three users' newest jobs count; nothing is said where they are inside."""
    with open_history(tmp_path / "history.db") as history:
        for number in range(1, 10):
            an_outcome(history, number, f"u{number % 3}", achieved)
    found = findings(tmp_path)["outcomes"]
    assert (found.status, found.seen.startswith(seen)) == (status, True)


def test_records_dropped_from_what_is_set_aside_are_said(tmp_path: Path) -> None:
    """Only where there are any."""
    with open_history(tmp_path / "history.db") as history:
        assert "set aside and dropped" not in findings(tmp_path)
        history.conn.execute("UPDATE set_aside_dropped SET records = 7")
    found = findings(tmp_path)["set aside and dropped"]
    assert (found.status, found.seen) == ("warn", "7 records")
