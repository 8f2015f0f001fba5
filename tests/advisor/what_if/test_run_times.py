"""Run times told to people: none without a model, then by what ended, and never in the way."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_ext.advisor.what_if.runtime_estimates import (
    RuntimeEstimator,
    runtime_evidence,
    runtime_json,
    wanted_of,
)
from slurm_ext.cli.predict.text import run_time
from slurm_ext.core.errors import ModelError
from slurm_ext.core.records import Submission
from slurm_ext.history.store.store import open_history
from slurm_ext.model.boosted_trees import Forest
from slurm_ext.model.duration.adaptive_bounds import AdaptiveBounds
from slurm_ext.model.duration.artifact import ABOUT, TYPED, DurationArtifact, serialize
from slurm_ext.model.duration.model import DurationModel
from slurm_ext.model.duration.query import SITE

NOW_S = 1.7e9
JOB = Submission(name="train", user_name="ann", tres_per_node="gres:gpu:1", time_limit_minutes=60)


def _says(value: float) -> Forest:
    """One leaf."""
    none = np.zeros(1, np.int64)
    leaf = np.full(1, -1, np.int64)
    return Forest(none, 0, leaf, np.zeros(1), none, none, none, np.full(1, value))


def promote(state: Path, wide: float = 1.0, name: str = "one", *, typed: bool = True) -> Path:
    """A model that tells the history's mean, a factor of e wide on each side (times `wide`).

    `typed`: it has learned from submissions that name no memory and no limit.
    """
    plain = DurationModel(SITE, 5.0, _says(0.0), _says(0.0), _says(0.0), _says(-wide), _says(wide))
    made = DurationArtifact(plain, AdaptiveBounds(), {TYPED: typed})
    folder = state / "models" / "duration" / name
    folder.mkdir(parents=True)
    for file, data in serialize(made).items():
        (folder / file).write_bytes(data)
    link = folder.parent / "current"
    link.unlink(missing_ok=True)
    link.symlink_to(name)
    return folder


def ended(state: Path, first: int, count: int, **changed: Any) -> None:
    """Jobs of ann's, each of 100 s."""
    with open_history(state / "history.db") as history:
        for number in range(first, first + count):
            submit_s = NOW_S - 1e6 + 200.0 * number
            run = {"record_id": f"r{number}", "cluster": "c", "job_id": number, "restart": 0}
            run |= {"node": "n1", "user": "ann", "job_name": "train", "gpus": 1}
            run |= {"submit_s": submit_s, "start_s": submit_s, "end_s": submit_s + 100.0}
            run |= {"elapsed_s": 100.0, "state": "COMPLETED", "source": "epilog", "ingested_s": 1.0}
            full = {**run, **changed}
            marks = ", ".join("?" * len(full))
            history.conn.execute(
                f"INSERT INTO runs ({', '.join(full)}) VALUES ({marks})", list(full.values())
            )


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A site's folder with a history of ten jobs."""
    ended(tmp_path, 1, 10)
    return tmp_path


def test_without_a_model_nobody_is_told_anything(state: Path) -> None:
    """Nothing is read, nothing is kept."""
    run_times = RuntimeEstimator()
    run_times.look(state)
    assert run_times.of(JOB, NOW_S) is None
    assert runtime_json(None) is None


def test_a_promoted_model_is_found_and_follows_the_history(state: Path) -> None:
    """A model without history, then jobs as they end, then another model: looked at anew."""
    promote(state)
    run_times = RuntimeEstimator()
    run_times.look(state)
    told = run_times.of(JOB, NOW_S)
    assert told is not None
    assert (told.runs, told.like) == (10, ("user", "job_name", "gpus"))
    assert told.low_s < told.mean_s < told.high_s
    ended(state, 50, 5)
    run_times.look(state)
    more = run_times.of(JOB, NOW_S)
    assert more is not None
    assert more.runs == 15
    promote(state, wide=3.0, name="two")
    run_times.look(state)
    wider = run_times.of(JOB, NOW_S)
    assert wider is not None
    assert wider.runs == 15
    assert wider.high_s > more.high_s


def test_no_run_time_is_longer_than_slurm_gives_the_job(state: Path) -> None:
    """A job that names no limit has its partition's, which ends it."""
    promote(state)
    run_times = RuntimeEstimator()
    run_times.look(state)
    told = run_times.of(replace(JOB, time_limit_minutes=None), NOW_S, "main", 1.0)
    assert told is not None
    assert told.low_s < 60.0
    assert (told.median_s, told.mean_s, told.high_s) == (60.0, 60.0, 60.0)


def test_a_model_of_an_earlier_release_answers_whole_submissions_alone(state: Path) -> None:
    """Its trees take a missing number for 0: it told days where an hour was to come."""
    promote(state, typed=False)
    run_times = RuntimeEstimator()
    run_times.look(state)
    assert run_times.of(JOB, NOW_S) is None
    assert run_times.of(replace(JOB, mem_per_node_mib=100, time_limit_minutes=None), NOW_S) is None
    assert run_times.of(replace(JOB, mem_per_node_mib=100), NOW_S) is not None


def test_a_history_put_in_its_place_is_another(state: Path) -> None:
    """What was remembered of the old one is forgotten."""
    promote(state)
    run_times = RuntimeEstimator()
    run_times.look(state)
    for path in state.glob("history.db*"):
        path.rename(path.with_name(f"old-{path.name}"))
    ended(state, 1, 3)
    run_times.look(state)
    told = run_times.of(JOB, NOW_S)
    assert told is not None
    assert told.runs == 3


def test_a_damaged_model_leaves_the_serving_one(state: Path) -> None:
    """The error names the file; answers go on."""
    promote(state)
    run_times = RuntimeEstimator()
    run_times.look(state)
    (promote(state, name="torn") / ABOUT).write_text("{")
    with pytest.raises(ModelError, match="torn"):
        run_times.look(state)
    assert run_times.of(JOB, NOW_S) is not None


def test_a_cluster_without_history_is_cold_but_safe(tmp_path: Path) -> None:
    """A model that came from elsewhere answers by no job at all."""
    promote(tmp_path)
    run_times = RuntimeEstimator()
    run_times.look(tmp_path)
    told = run_times.of(JOB, NOW_S)
    assert told is not None
    assert runtime_evidence(runtime_json(told) or {}) == "0 ended jobs"


@pytest.mark.parametrize(
    ("changed", "gpus", "cpus"),
    [
        ({}, 1, 1),
        ({"min_nodes": 2, "ntasks_per_node": 2, "cpus_per_task": 3}, 1, 12),
        ({"tres_per_node": None, "tres_per_task": "gres/gpu:a100:2", "num_tasks": 4}, 8, 4),
        ({"tres_per_node": None, "tres_per_job": "gres/gpu=3"}, 3, 1),
        ({"tres_per_node": None}, 0, 1),
    ],
)
def test_the_whole_job_is_asked_about(changed: dict[str, Any], gpus: int, cpus: int) -> None:
    """GPUs of one node and CPUs of all tasks, as the records of ended jobs count them."""
    asked = wanted_of(Submission(**{**_written(), **changed}), NOW_S)
    assert (asked.gpus, asked.cpus, asked.time_limit_s) == (gpus, cpus, 3600.0)


def _written() -> dict[str, Any]:
    return {"name": "train", "tres_per_node": "gres:gpu:1", "time_limit_minutes": 60}


def test_people_read_it_in_a_clause() -> None:
    """The length, its interval, and by whose jobs."""
    times = {"median_s": 7600.0, "mean_s": 9e4, "low_s": 90.0, "high_s": 3e5}
    told = {**times, "runs": 1, "like": ["user", "gpus"]}
    assert run_time(told) == "2.1 h (90 s to 3.5 d), by 1 ended job of the same user and gpus"
    earlier = {name: told[name] for name in told if name != "median_s"}
    assert run_time(earlier).startswith("25.0 h")
    everybody = {**told, "runs": 7, "like": []}
    assert runtime_evidence(everybody) == "7 ended jobs"
