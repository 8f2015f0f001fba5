"""`dlqueue explain` tells how long a job was to be expected to run, by what was known then."""

from pathlib import Path

import pytest

from slurm_ext.cli.explain.text import lines
from slurm_ext.history.store.store import History, open_history
from slurm_ext.model.duration.artifact import ABOUT
from slurm_ext.questions.explain.document import explained
from tests.advisor.what_if.test_run_times import ended, promote


@pytest.fixture
def history(tmp_path: Path) -> History:
    """Ten jobs, one after the other, and five more that came after them."""
    ended(tmp_path, 1, 10)
    ended(tmp_path, 100, 5)
    return open_history(tmp_path / "history.db")


def test_only_jobs_that_had_ended_are_known(history: History, tmp_path: Path) -> None:
    """The tenth is told by the nine before it, in JSON and in words."""
    promote(tmp_path)
    document = explained(history, "10")
    assert document["run_time"]["runs"] == 9
    (said,) = [line for line in lines(document) if line.startswith("expected: ")]
    assert "by 9 ended jobs of the same user, job name and gpus" in said
    assert said.endswith("; it ran 100 s")


def test_without_a_model_or_with_a_damaged_one_nothing_is_said(
    history: History, tmp_path: Path
) -> None:
    """The rest of the answer stays."""
    assert explained(history, "10")["run_time"] is None
    (promote(tmp_path) / ABOUT).write_text("{")
    document = explained(history, "10")
    assert document["run_time"] is None
    assert not any("expected" in line for line in lines(document))
