"""Summaries and priors of evidence: estimates, reasons and bounded caches."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slurm_ext.advisor.evidence.prior import Priors, serving
from slurm_ext.advisor.evidence.runs import RunTable
from slurm_ext.advisor.evidence.summary import node_cores_of, summarize, usual_workers
from slurm_ext.core.records import Level, Submission
from slurm_ext.model.throughput.estimate import Prior
from slurm_ext.model.throughput.inversion import LogNormal
from tests.advisor.service.service_examples import PRIOR_NAMES
from tests.builders import STARVED


def test_the_workers_and_cores_of_the_nearest_run() -> None:
    """The user's own count where it is known; of the cluster's runs none."""
    ours = replace(STARVED, workers=8, user_workers=3)
    near = replace(STARVED, workers=5, user_workers=None, node_cores=None)
    assert usual_workers({Level.CLUSTER: [ours]}) == 0
    assert usual_workers({Level.KIND: [ours]}) == 3
    assert usual_workers({Level.KIND: [ours], Level.SCRIPT: [near, ours]}) == 5
    assert node_cores_of({Level.CLUSTER: [ours], Level.SCRIPT: [near]}) == 4
    assert node_cores_of({Level.SCRIPT: [replace(near, node_cores=0)]}) is None
    assert node_cores_of({}) is None


def test_a_summary_has_the_estimate_or_the_reason() -> None:
    """Never both."""
    known = summarize({Level.SCRIPT: [STARVED]}, None)
    assert (known.estimate is not None, known.why_none) == (True, "")
    assert (known.usual_workers, known.node_cores) == (1, 4)
    none = summarize({}, None)
    assert (none.estimate, none.usual_workers, none.node_cores) == (None, 0, None)
    assert none.why_none == "I do not know yet: no runs like this one"


def test_summaries_are_kept_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same runs and prior have the same summary."""
    from slurm_ext.advisor.evidence import runs as module

    monkeypatch.setattr(module, "_MOST_SUMMARIES", 2)
    table = RunTable()
    first = table.summary(table.newest({}), None)
    assert table.summary(table.newest({}), None) is first
    priors = [Prior(**dict.fromkeys(PRIOR_NAMES, LogNormal(0.0, n + 1.0))) for n in range(2)]
    for prior in priors:
        table.summary(table.newest({}), prior)
    assert len(table._summaries) == 1
    assert table.summary(table.newest({}), priors[1]) is not first


def test_priors_are_kept_by_job_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """User, partition, GPUs and keys; without a model there is none."""
    from slurm_ext.advisor.evidence import prior as module

    calls: list[Any] = []

    def told(known: Any) -> Any:
        calls.append(known)
        return len(calls)

    artifact: Any = SimpleNamespace(name="one", prior=told)
    monkeypatch.setattr(module, "_MOST_PRIORS", 2)
    priors = Priors(artifact)
    job = Submission(user_name="ada", partition="p", tres_per_node="gpu:2")
    keys = {Level.SCRIPT: 5}
    first, again = (priors.prior_of(job, keys) for _ in range(2))
    answers: list[Any] = [first, again, priors.name]
    assert answers == [1, 1, "one"]
    (known,) = calls
    assert (known.user, known.partition, known.gpus, known.keys) == ("ada", "p", 2, keys)
    others = [replace(job, user_name="bob"), replace(job, partition="q"), replace(job, num_tasks=9)]
    answers = [priors.prior_of(one, keys) for one in others]
    assert answers == [2, 3, 4]
    assert len(calls) == 4
    assert (Priors().name, Priors().prior_of(job, keys)) == (None, None)


def test_the_promoted_model_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept while it is promoted; without one, nobody has a prior."""
    from slurm_ext.advisor.evidence import prior as module

    monkeypatch.setattr(module, "load", lambda folder: SimpleNamespace(name=folder.name))
    none = Priors()
    assert serving(tmp_path, none) is none
    (tmp_path / "one").mkdir()
    (tmp_path / "current").symlink_to("one")
    made = serving(tmp_path, none)
    assert made.name == "one"
    assert serving(tmp_path, made) is made
    (tmp_path / "current").unlink()
    gone = serving(tmp_path, made)
    assert (gone.name, gone is made) == (None, False)
