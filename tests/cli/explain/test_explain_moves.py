"""`dlqueue explain` of a job that cluster loops moved."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli.explain.actions import MOST_SHOWN
from slurm_ext.cli.explain.text import lines
from slurm_ext.control.loops.action_log import ActionLog
from slurm_ext.core.actions import Action
from slurm_ext.core.errors import HistoryError
from slurm_ext.history.ingest.actions import action_files, record_actions
from slurm_ext.history.store.store import History, open_history
from slurm_ext.questions.explain.document import explained


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    """An empty one."""
    with open_history(tmp_path / "history.db") as history:
        yield history


def moved(history: History, *moves: dict[str, Any]) -> None:
    """Moves of job 7 that the history writer has entered."""
    base = {"at_s": 1.0, "kind": "queue", "mode": "act", "subject": "7", "job_id": 7}
    folder = history.path.parent
    ActionLog(folder, "queue").write([Action(**{**base, **one}) for one in moves])
    for path in action_files(folder / "moves"):
        record_actions(history, path, now_s=0.0)


def test_a_jobs_moves_are_told(history: History) -> None:
    """In the order of time, with what came of them; a shadow's says that nothing was changed."""
    moved(
        history,
        {"at_s": 2.0, "done": "nice=9", "why": "long", "outcome": "done"},
        {"kind": "pair", "mode": "shadow", "done": "StartTime=now", "why": "good company"},
    )
    document = explained(history, "7")
    assert (document["decision"], document["runs"]) == (None, [])
    assert [one["done"] for one in document["moves"]] == ["StartTime=now", "nice=9"]
    _, first, second = lines(document)
    assert first.startswith("pair:     ")
    assert first.endswith("StartTime=now (shadow: only decided): good company")
    assert second.startswith("queue:    ")
    assert second.endswith("nice=9: long; done")


def test_of_many_moves_people_read_the_newest(history: History) -> None:
    """The rest is counted, and all of them are in the JSON."""
    count = MOST_SHOWN + 5
    moved(history, *({"at_s": float(n), "done": f"nice={n}", "why": "w"} for n in range(count)))
    document = explained(history, "7")
    assert len(document["moves"]) == count
    told = list(lines(document))
    assert len(told) == 2 + MOST_SHOWN
    assert "5 earlier ones" in told[1]


def test_a_job_that_nobody_moved_is_still_unknown(history: History) -> None:
    """Moves of others tell nothing of it."""
    moved(history, {"done": "nice=9", "why": "long"})
    with pytest.raises(HistoryError, match="knows nothing of 8"):
        explained(history, "8")
