"""Durations learnt from ended jobs: better than the history alone, served only as they are."""

import json
from functools import cache
from math import log
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("lightgbm")

from slurm_ext.core.errors import ModelError
from slurm_ext.model.arrays import Array
from slurm_ext.model.duration.adaptive_bounds import AdaptiveBounds
from slurm_ext.model.duration.artifact import ABOUT, ARRAYS, DurationArtifact, load, serialize
from slurm_ext.model.duration.model import DurationModel
from slurm_ext.model.duration.state import DurationState, FeaturePlan, JobFeatures
from slurm_ext.training.challenger import reproduces
from slurm_ext.training.duration.challenge import difference, score
from slurm_ext.training.duration.fit import FinishedJob, features, fit
from slurm_ext.training.promotion import promote

PLAN = FeaturePlan(levels=(("user",), ()), numbers=("size",))


def past(jobs: int = 1500) -> list[FinishedJob]:
    """Users run ten or thousand seconds; a large job ten times longer than a small one."""
    random = np.random.default_rng(0)
    told = []
    for at in range(jobs):
        user, size = int(random.integers(4)), float(random.integers(2))
        duration_s = float((10 if user < 2 else 1000) * 10**size * random.lognormal(sigma=0.3))
        asked = JobFeatures(at * 60.0, {"user": str(user)}, {"size": size})
        told.append(FinishedJob(asked, at * 60.0 + duration_s, duration_s))
    return told


JOBS = past()
ROWS = features(PLAN, JOBS)
LOGS = np.array([log(job.duration_s or 1.0) for job in JOBS])


@cache
def model() -> DurationModel:
    """Fitted by the first test that asks: collecting tests costs nothing."""
    return fit(PLAN, ROWS[:1000], LOGS[:1000], rounds=80)


def mse(told: Array) -> float:
    """Mean squared error of logs on the later jobs."""
    return float(((told - LOGS[1000:]) ** 2).mean())


def test_trees_correct_the_history() -> None:
    """What the submission tells (here its size) is used beside the user's mean; bounds hold."""
    told = model().predict(ROWS[1000:])
    assert mse(told.log_mean) < 0.5 * mse(ROWS[1000:, -1])
    inside = (told.log_low <= LOGS[1000:]) & (LOGS[1000:] <= told.log_high)
    assert 0.8 < inside.mean() < 0.97


def test_no_user_is_more_than_a_third_of_a_score() -> None:
    """A user of most jobs, all far outside, moves error and coverage by his share alone."""
    honest = [job.asked.names["user"] for job in JOBS[1000:1100]]
    rows, off = np.repeat(ROWS[1000:1100], 4, axis=0), np.tile([0.0, 10.0, 10.0, 10.0], 100)
    owners = [user if n == 0 else "mallory" for user in honest for n in range(4)]
    times = np.arange(400.0), np.full(400, np.inf)
    log_s = np.repeat(LOGS[1000:1100], 4)
    alone = _score(rows[::4], log_s[::4], (times[0][::4], times[1][::4]), honest)
    found = _score(rows, log_s + off, times, owners)
    assert found["coverage90"] > 0.6 * alone["coverage90"]
    assert found["mae"] < alone["mae"] + 10.5 / 3


def _score(
    rows: Array, log_s: Array, times: tuple[Array, Array], owners: list[str]
) -> dict[str, float]:
    return score(DurationArtifact(model(), AdaptiveBounds()), rows, log_s, times, owners)


def test_one_row_is_answered_as_many_are() -> None:
    """However few rows are asked for at once, to the bit; unknown values included."""
    rows = np.vstack([ROWS[:20], np.full((1, ROWS.shape[1]), np.nan)])
    for trees in (model().mean, model().low):
        one_by_one = np.concatenate([trees(row[None]) for row in rows])
        np.testing.assert_array_equal(trees(rows), one_by_one)
    np.testing.assert_array_equal(model().middle(rows), model().predict(rows).log_mean)


def test_features_are_what_a_live_state_gives() -> None:
    """The rows that trees learn are those of `DurationState`, fed as events came."""
    state = DurationState(PLAN)
    gone = [job for job in range(200) if (JOBS[job].end_s or 0) <= JOBS[200].asked.submit_s]
    for job in range(200):
        state.submitted(job, JOBS[job].asked)
    for job in sorted(gone, key=lambda one: JOBS[one].end_s or 0):
        state.ended(job, JOBS[job].end_s or 0, JOBS[job].duration_s)
    np.testing.assert_allclose(ROWS[200], state.row(JOBS[200].asked), rtol=1e-12)


def test_nothing_of_the_future_is_seen() -> None:
    """Other lengths of jobs that still ran change no feature of a submission."""
    changed = [
        FinishedJob(job.asked, job.end_s and job.end_s + 9e9, 1.0)
        if (job.end_s or 0) > JOBS[700].asked.submit_s
        else job
        for job in JOBS[:701]
    ]
    np.testing.assert_array_equal(features(PLAN, changed)[700], ROWS[700])


def test_the_same_jobs_give_the_same_model() -> None:
    """Two trainings answer alike, to the bit."""
    again = fit(PLAN, ROWS[:1000], LOGS[:1000], rounds=80)
    assert (
        difference(
            DurationArtifact(model(), AdaptiveBounds()),
            DurationArtifact(again, AdaptiveBounds()),
            ROWS,
        )
        == 0
    )


def test_too_few_jobs_make_no_model() -> None:
    """The error says how many there are and how many are needed."""
    with pytest.raises(ModelError, match="20 ended jobs are too few, 200"):
        fit(PLAN, ROWS[:20], LOGS[:20])


def test_what_is_exported_is_read_back(tmp_path: Path) -> None:
    """The folder answers as the model, bounds included; another model is not what it holds."""
    bounds = AdaptiveBounds()
    bounds.start([1] * 40, np.full(40, 0.5), np.full(40, -0.2))
    one = DurationArtifact(model(), bounds)
    check = reproduces(lambda folder: difference(one, load(folder), ROWS))
    name = promote(tmp_path, "duration", serialize(one), check)
    served = load(tmp_path / name)
    assert difference(served, DurationArtifact(model(), bounds), ROWS) == 0
    assert served.bounds.low == [0.0, 0.5, 0.0]
    other = DurationArtifact(model(), AdaptiveBounds())
    refuse = reproduces(lambda folder: difference(other, load(folder), ROWS))
    with pytest.raises(ModelError, match="not promoted"):
        refuse(tmp_path / name)


def test_a_damaged_model_is_named(tmp_path: Path) -> None:
    """Torn arrays, another format, a plan of other names, no file: an error, no traceback."""
    whole = serialize(DurationArtifact(model(), AdaptiveBounds()))
    body = json.loads(whole[ABOUT])
    del body["sha256"]  # as of a release that wrote none: what is inside is looked at all the same
    spoilt = {
        "torn": {ARRAYS: whole[ARRAYS][:-9]},
        "format": {ABOUT: json.dumps({**body, "format": 9}).encode()},
        "levels": {ABOUT: json.dumps({**body, "levels": [["user"]], "numbers": []}).encode()},
        "start": {ABOUT: json.dumps({**body, "start": None}).encode()},
        "list": {ABOUT: b"[]"},
        "empty": {ABOUT: b""},
    }
    for name, files in spoilt.items():
        folder = tmp_path / name
        folder.mkdir()
        for file, data in {**whole, **files}.items():
            (folder / file).write_bytes(data)
        with pytest.raises(ModelError, match=name):
            load(folder)
    with pytest.raises(ModelError, match="cannot be read"):
        load(tmp_path / "nowhere")
