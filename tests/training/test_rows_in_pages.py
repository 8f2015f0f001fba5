"""Trainings that read a history in pages learn from the same rows, in little memory."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.history.store import pages
from slurm_ext.history.store.store import History, open_history
from slurm_ext.history.views.columns import TRAINING_COLUMNS, training_rows
from slurm_ext.history.views.finished_jobs import newest_finished
from slurm_ext.training.duration.challenge import finished_jobs
from slurm_ext.training.scaling import history_runs as scaling
from slurm_ext.training.slowdown import history_runs as slowdown
from slurm_ext.training.slowdown.history_runs import sharing_history
from slurm_ext.training.throughput import dataset
from slurm_ext.training.throughput.dataset import examples
from tests.training.scaling.test_scaling_challenge import history as growing
from tests.training.shared_history import filled
from tests.training.test_train_command import fill
from tests.training.throughput.test_training import row

LEARNT: dict[str, Callable[[History], Any]] = {
    "prior": lambda history: examples(training_rows(history), TRAINING_COLUMNS),
    "scaling": lambda history: scaling.rows(training_rows(history), TRAINING_COLUMNS),
    "sharing": sharing_history,
    "durations": lambda history: finished_jobs(newest_finished(history, 100)),
}


@pytest.mark.parametrize("name", LEARNT)
def test_each_kind_learns_the_same_from_short_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Of runs alone, in pairs, and of many users; a submission was a minute before each end."""
    fill(tmp_path / "many.db", 150)
    for path in (filled(tmp_path / "pairs.db"), tmp_path / "many.db"):
        with open_history(path) as history:
            history.conn.execute("UPDATE runs SET submit_s = end_s - elapsed_s - 60")
        with open_history(path, read_only=True) as history:
            whole = LEARNT[name](history)
            monkeypatch.setattr(pages, "RUNS", 7)
            assert LEARNT[name](history) == whole
            monkeypatch.undo()
    assert whole or name in ("scaling", "sharing")


def test_the_newest_runs_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies behind the newest is not even read, so that a long history costs no memory."""
    monkeypatch.setattr(dataset, "NEWEST", 5)
    monkeypatch.setattr(scaling, "MOST_READ", 30)
    read: list[int] = []

    def counted(table: list[Any]) -> Any:
        read.append(0)
        for one in table:
            read[-1] += 1
            yield one

    rng = random.Random(1)
    runs = [row(number, rng) for number in range(50)][::-1]
    found = examples(counted(runs), TRAINING_COLUMNS)
    assert [example.end_s for example in found] == [one[0] for one in runs[4::-1]]
    table = [*growing(9)][::-1]
    some = scaling.rows(counted(table), TRAINING_COLUMNS)
    assert some == scaling.rows(table[:30], TRAINING_COLUMNS)
    assert read == [5, 30]


def test_runs_alone_are_bounded_in_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Beyond a number of them, a job has as many in all shapes as it has in one."""
    path = filled(tmp_path / "history.db")
    with open_history(path, read_only=True) as history:
        jobs = len(sharing_history(history).solos)
        monkeypatch.setattr(slowdown, "MOST_HELD", 3)
        monkeypatch.setattr(slowdown, "MOST_ALONE", 1)
        few = sharing_history(history)
    assert len(few.solos) == jobs


def test_names_and_numbers_of_like_jobs_are_one_object(tmp_path: Path) -> None:
    """A hundred thousand jobs repeat few of them."""
    fill(tmp_path / "history.db", 150)
    with open_history(tmp_path / "history.db") as history:
        history.conn.execute("UPDATE runs SET submit_s = end_s - 60")
        jobs = finished_jobs(newest_finished(history, 150))
    assert len(jobs) == 150
    assert len({id(job.asked.names) for job in jobs}) == len(
        {job.asked.names["user"] for job in jobs}
    )
    assert len({id(job.asked.numbers) for job in jobs}) == 1
