"""The campaign's jobs come in groups, and end as they are to."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from contrib.bench.campaign import endings, load
from contrib.bench.campaign.endings import ENDINGS, Batch
from contrib.bench.campaign.load import GROUP, Load, groups
from tests.bench.campaign.a_campaign import submitted


@pytest.mark.parametrize("count", [0, 1, GROUP, GROUP + 1, 10_000])
def test_all_are_submitted_in_groups(count: int) -> None:
    """No group is larger than slurmctld should hold, and none is left out."""
    sizes = list(groups(count))
    assert sum(sizes) == count
    assert max(sizes) <= GROUP


def test_only_jobs_that_were_looked_at_are_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the last group's are not: they are there until the end."""
    cluster = _Queue(forgets=3)
    monkeypatch.setattr(load, "Crowd", cluster.crowd)
    monkeypatch.setattr(load, "shapes_of", lambda _: dict.fromkeys(cluster.jobs, "shape"))
    monkeypatch.setattr(load, "Batch", lambda _: SimpleNamespace(add=_nothing, tend=_nothing))
    said: list[str] = []
    loaded = Load(cluster, "none", said.append)  # type: ignore[arg-type]
    loaded.add(2 * GROUP, 0, longest_s=0.0)
    ids = [one.job_id for one in loaded.submitted]
    assert cluster.cancelled == [str(job) for job in ids[:GROUP] if job != 3]
    assert set(loaded.seen) == set(ids) - {3}
    assert said[0].startswith("500 of 1,000 submitted")


def _nothing(*_: object, **__: object) -> None:
    pass


class _Queue:
    """A slurmctld that does not tell of one job."""

    def __init__(self, forgets: int) -> None:
        self.jobs, self.cancelled, self._forgets = set[int](), list[str](), forgets
        self.slurm = self

    def crowd(self, _: object, count: int, first: int, shells: int) -> Any:
        assert shells == 1
        found = [replace(submitted(), job_id=first + n + 1) for n in range(count)]
        self.jobs |= {one.job_id for one in found if one.job_id} - {self._forgets}
        crowd = SimpleNamespace(join=lambda _: found)
        return SimpleNamespace(start=lambda: crowd)

    def run(self, words: Sequence[str], *, check: bool) -> None:
        self.cancelled += words[1:]


def test_a_job_whose_time_was_up_by_itself_is_not_waited_for(tmp_path: Path) -> None:
    """Slurm would refuse to cut it short, again and again."""
    commands: list[str] = []
    batch = Batch(_cluster_of(tmp_path, {"JobState": "TIMEOUT"}, commands))
    ending = next(one for one in ENDINGS if one.name == "runs out of time")
    batch.waits(7, ending)
    begun = tmp_path / "begun" / "7"
    begun.write_text("0\n")
    os.utime(begun, (0, 0))
    assert batch.tend()
    assert commands == []


def test_requeued_jobs_start_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one is asked again later; slurmd would run no prolog for it."""
    commands: list[str] = []
    clock_s = [100.0]
    monkeypatch.setattr("contrib.bench.campaign.endings.time.monotonic", lambda: clock_s[0])
    starter = endings.Starter(_cluster_of(tmp_path, {}, commands))
    for job_id, passed_s in (("7", 0.0), ("8", 1.0), ("8", endings.APART_S)):
        clock_s[0] += passed_s
        starter.start(job_id)
    assert [word for word in commands if word.startswith("JobId")] == ["JobId=7", "JobId=8"]


def _cluster_of(folder: Path, job: dict[str, str], commands: list[str]) -> Any:
    """A cluster in `folder` whose every job is `job`."""
    slurm = SimpleNamespace(
        path=folder.joinpath,
        job=lambda _: job,
        run=lambda words, **_: commands.extend(words),
    )
    return SimpleNamespace(slurm=slurm)
