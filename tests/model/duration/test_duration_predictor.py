"""Run times in service: history's mean, the model's correction, moved bounds, and the limit."""

import json
from dataclasses import replace
from math import exp, inf, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_ext.model.boosted_trees import Forest
from slurm_ext.model.duration.adaptive_bounds import STEP, AdaptiveBounds
from slurm_ext.model.duration.artifact import DurationArtifact, load, serialize
from slurm_ext.model.duration.key_statistics import STATISTICS
from slurm_ext.model.duration.model import (
    KNOWN_FROM,
    LEAST_LOG,
    MISSED,
    MOST_LOG,
    DurationModel,
    relative,
)
from slurm_ext.model.duration.predictor import (
    MOST_KEYS,
    MOST_RUNS,
    DurationPredictor,
    load_predictor,
)
from slurm_ext.model.duration.query import DurationQuery
from slurm_ext.model.duration.state import FeaturePlan
from slurm_ext.model.duration.submission_batch import SubmissionBatches, _come_to
from slurm_ext.model.duration.user_bounds import UserBounds

PLAN = FeaturePlan(levels=(("user", "job_name"), ("user",), ()), numbers=("log_cpus",))


def forest(value: float) -> Forest:
    """The same value for every row."""
    whole = [np.array(row, dtype=np.int64) for row in ([0], [0, -1, -1], [0, 0, 0], [1, 1, 2])]
    right, values = np.array([2, 1, 2], dtype=np.int64), np.array([0.0, value, value])
    return Forest(whole[0], 1, whole[1], np.zeros(3), whole[2], whole[3], right, values)


def artifact(**changes: Any) -> DurationArtifact:
    """A model whose trees say constants: of the mean 0.2 and 0.4, median 0.1; start log 100."""
    usual = {"mean": 0.2, "plain": 0.4, "median": 0.1, "low": -1.0, "high": 2.0}
    trees = {**usual, **changes.pop("trees", {})}
    forests = {name: forest(value) for name, value in trees.items()}
    model = DurationModel(PLAN, log(100.0), **forests)
    bounds = AdaptiveBounds(
        changes.pop("low", [0.1, 0.2, 0.3]), changes.pop("high", [0.4, 0.5, 0.6])
    )
    return DurationArtifact(model, bounds, changes)


def row(number: int, seconds: float, *, user: str = "ann", job_name: str = "a") -> dict[str, Any]:
    """An ended job of history."""
    start_s = 1000.0 * number
    return {
        "id": number,
        "user": user,
        "job_name": job_name,
        "submit_s": start_s,
        "start_s": start_s,
        "end_s": start_s + seconds,
        "elapsed_s": seconds,
    }


def query(**more: Any) -> DurationQuery:
    """A job that ann submits now."""
    return DurationQuery(submit_s=1e6, **{"user": "ann", "job_name": "a", **more})


def test_constants() -> None:
    """Memory and intervals rest on them."""
    assert (MOST_KEYS, MOST_RUNS, STEP) == (2048, 100_000, 0.02)
    assert (LEAST_LOG, MOST_LOG, KNOWN_FROM, MISSED) == (0.0, 18.0, (1, 5), 0.05)


def test_without_history_the_start_is_the_mean() -> None:
    """Half the corrected mean, half the plain trees; nothing is known of its like."""
    (found,) = DurationPredictor(artifact(), "m").predict([query()])
    middle = log(100.0) + (0.2 + 0.4) / 2
    assert found.mean_s == pytest.approx(exp(middle))
    assert found.median_s == pytest.approx(exp(log(100.0) + 0.1))
    assert found.low_s == pytest.approx(exp(log(100.0) - 1.0 - 0.1))
    assert found.high_s == pytest.approx(exp(log(100.0) + 2.0 + 0.4))
    assert (found.runs, found.like) == (0, ())
    assert DurationPredictor(artifact(), "m").predict([]) == []


def test_history_moves_the_mean_and_names_its_like() -> None:
    """The narrowest names that are known; bounds by how many of the narrowest ended."""
    predictor = DurationPredictor(artifact(), "m")
    predictor.take([row(number, 400.0) for number in (1, 2, 3)])
    same, wider, anyone = predictor.predict(
        [query(), query(job_name="b"), query(user="bob", job_name="b")]
    )
    history = log(400.0)
    middle = (history + 0.2 + log(100.0) + 0.4) / 2
    for found in (same, wider, anyone):
        assert found.mean_s == pytest.approx(exp(middle), rel=1e-6)
        assert found.median_s == pytest.approx(exp(history + 0.1), rel=1e-6)
    assert [(found.runs, found.like) for found in (same, wider, anyone)] == [
        (3, ("user", "job_name")),
        (3, ("user",)),
        (3, ()),
    ]
    assert same.low_s == pytest.approx(exp(history - 1.0 - 0.2))
    assert same.high_s == pytest.approx(exp(history + 2.0 + 0.5))
    assert wider.low_s == pytest.approx(exp(history - 1.0 - 0.1))
    predictor.take([row(number, 400.0) for number in (4, 5)])
    (many,) = predictor.predict([query()])
    assert many.low_s == pytest.approx(exp(history - 1.0 - 0.3))
    assert many.runs == 5
    assert predictor.last_id == 5


def test_no_prediction_is_beyond_the_limit_or_the_clock() -> None:
    """Bounds never cross the mean, nor the median bounds; two years are the most, 0 no limit."""
    predictor = DurationPredictor(artifact(), "m")
    limited, unlimited = predictor.predict([query(time_limit_s=50.0), query(time_limit_s=0.0)])
    assert (limited.median_s, limited.mean_s, limited.high_s) == (50.0, 50.0, 50.0)
    assert limited.low_s == pytest.approx(100.0 * exp(-1.1))
    assert unlimited.high_s == pytest.approx(100.0 * exp(2.4))
    (large,) = DurationPredictor(artifact(trees={"high": 99.0}), "m").predict([query()])
    assert large.high_s == pytest.approx(exp(18.0))
    inward = artifact(low=[-9.0] * 3, high=[-9.0] * 3)
    (narrow,) = DurationPredictor(inward, "m").predict([query()])
    assert narrow.low_s == narrow.median_s == narrow.mean_s == narrow.high_s
    (longest,) = DurationPredictor(artifact(trees={"mean": 99.0}), "m").predict([query()])
    assert longest.mean_s == pytest.approx(exp(18.0))
    (longest,) = DurationPredictor(artifact(trees={"median": 99.0}), "m").predict([query()])
    assert longest.median_s == pytest.approx(100.0 * exp(2.0))  # the bound before it moved


def test_jobs_after_training_move_the_bounds() -> None:
    """Those that the model learned from do not; each side by its own misses."""
    known = DurationPredictor(artifact(window_s=[0.0, 2500.0]), "m")
    known.take([row(1, 100.0), row(2, 100.0)])
    before = [(0.1, 0.4), (0.2, 0.5), (0.3, 0.6)]
    assert [known._bounds.shifts("ann", at) for at in range(3)] == before
    known.take([row(3, 1.0)])  # two of its name had ended: far below
    moved = (0.2 + 0.02 * 0.95, 0.5 - 0.02 * 0.05)
    assert known._bounds.shifts("ann", 1) == pytest.approx(moved)
    assert known._bounds.shifts("bob", 1) == before[1]  # one user's alone are nobody else's
    known.take([row(4, 1e7, user="bob")])
    assert known._bounds.shifts("bob", 0) == pytest.approx((0.1 - 0.001, 0.4 + 0.019))
    unknown = DurationPredictor(artifact(), "m")
    unknown.take([row(3, 1e7)])
    assert unknown._bounds.shifts("ann", 1) == before[1]


def test_one_users_ends_do_not_move_the_bounds_of_others() -> None:
    """Hundreds of them: they move his own; those of many users move everybody's."""
    bounds = UserBounds(AdaptiveBounds())
    for number in range(300):
        bounds.update("mallory", 0, 50.0, 50.0)
        bounds.update(f"user {number % 10}", 0, -1.0, -1.0)
    low, high = bounds.shifts("user 1", 0)
    assert -0.5 < low < 0.05
    assert low == high
    assert bounds.shifts("mallory", 0)[0] > 3.0
    for number in range(300):
        bounds.update(f"user {number % 10}", 0, 50.0, 50.0)
    assert bounds.shifts("nobody", 0)[0] > 3.0


def test_rows_that_cannot_be_are_skipped_but_counted_as_read() -> None:
    """None without its submission, none of unknown length; an older id never goes back."""
    predictor = DurationPredictor(artifact(), "m")
    without = {**row(7, 5.0), "submit_s": None}
    endless = {**row(6, 5.0), "end_s": None}
    predictor.take([without, endless, {**row(5, 5.0), "id": None}])
    assert predictor.last_id == 7
    (found,) = predictor.predict([query()])
    assert (found.runs, found.like) == (1, ("user", "job_name"))


def test_models_of_one_plan_hand_on_their_history() -> None:
    """Bounds are the new model's own; another plan begins anew."""
    old = DurationPredictor(artifact(), "old")
    old.take([row(1, 400.0)])
    new = DurationPredictor(artifact(), "new", old.past)
    assert new.past is old.past
    assert new.last_id == 1
    other = artifact()
    plan = FeaturePlan(levels=((),), numbers=())
    changed = DurationArtifact(replace(other.durations, plan=plan), other.bounds, {})
    assert DurationPredictor(changed, "other", old.past).last_id == 0
    source = artifact()
    predictor = DurationPredictor(source, "m")
    predictor._bounds.common.low[0] = 9.0
    assert source.bounds.low == [0.1, 0.2, 0.3]


def test_the_promoted_model_is_served(tmp_path: Path) -> None:
    """None before any; the same object until another is promoted, then with the same history."""
    models = tmp_path / "duration"
    assert load_predictor(tmp_path, None) is None
    for name, mean in (("m1", 0.2), ("m2", 0.3)):
        (models / name).mkdir(parents=True)
        for file, data in serialize(artifact(trees={"mean": mean})).items():
            (models / name / file).write_bytes(data)
    (models / "current").symlink_to("m1")
    first = load_predictor(tmp_path, None)
    assert first is not None
    assert first.name == "m1"
    first.take([row(1, 400.0)])
    assert load_predictor(tmp_path, first) is first
    (models / "current").unlink()
    (models / "current").symlink_to("m2")
    second = load_predictor(tmp_path, first)
    assert second is not None
    assert (second.name, second.past is first.past) == ("m2", True)
    assert second.predict([query()])[0].mean_s > first.predict([query()])[0].mean_s


def test_a_model_of_an_earlier_release_has_the_mean_for_its_median(tmp_path: Path) -> None:
    """It is served until the next training; it had no trees for the median."""
    for file, data in serialize(artifact()).items():
        (tmp_path / file).write_bytes(data)
    about = json.loads((tmp_path / "duration.json").read_text())
    del about["depths"]["median"], about["sha256"]
    (tmp_path / "duration.json").write_text(json.dumps(about))
    (found,) = DurationPredictor(load(tmp_path), "m").predict([query()])
    assert found.median_s == pytest.approx(exp(log(100.0) + 0.2))


def test_a_model_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    """Plan, start, trees, bounds, and what training said of it."""
    written = artifact(window_s=[1.0, 2.0])
    for name, data in serialize(written).items():
        (tmp_path / name).write_bytes(data)
    again = load(tmp_path)
    assert serialize(again) == serialize(written)
    assert (again.durations.plan, again.durations.start) == (PLAN, log(100.0))
    assert (again.bounds.low, again.bounds.high) == ([0.1, 0.2, 0.3], [0.4, 0.5, 0.6])
    assert again.about == {"window_s": [1.0, 2.0]}


def test_log_durations_are_seen_from_history_s_mean() -> None:
    """Spreads, counts and ages are not; without history, from the model's start."""
    width = len(PLAN.features)
    rows = np.arange(2.0 * width).reshape(2, width)
    rows[0, -1], rows[1, -1] = 5.0, np.nan
    base, shifted = relative(PLAN, rows, 7.0)
    assert base.tolist() == [5.0, 7.0]
    moved = {name for name, off in zip(PLAN.features, rows[0] - shifted[0], strict=True) if off}
    logs = ("last", "before_last", "third_last", "fast", "middling", "slow", "median")
    expected = {
        f"{level}:{name}"
        for level in ("user+job_name", "user", "all")
        for name in (*logs, "log_mean", "recent")
    }
    assert moved == expected
    column = PLAN.features.index("user:last")
    assert (rows - shifted)[:, column].tolist() == [5.0, 7.0]
    assert STATISTICS[0] == "ended"


@pytest.mark.parametrize("at", [-3.0, -2.9, -1.0, 0.0, 1.0, 5.9, 6.0])
def test_a_running_job_is_expected_to_come_to_the_mean_beyond_its_age(at: float) -> None:
    """Numerically: the mean of a normal cut off below its age."""
    mean, spread = 3.0, 0.7
    grid = np.linspace(at, at + 12.0, 200_001)
    density = np.exp(-(grid**2 - at**2) / 2)
    expected = mean + spread * float((grid * density).sum() / density.sum())
    assert _come_to(mean + at * spread, mean, spread) == pytest.approx(expected, rel=3e-4)


def test_the_ends_of_that_expectation() -> None:
    """A job too young says nothing; one very old comes to a little more than its age."""
    assert _come_to(-3.01, 0.0, 1.0) == 0.0
    assert _come_to(-2.99, 0.0, 1.0) > 0.0
    assert _come_to(6.01, 0.0, 1.0) == 6.01 + 1 / 6.01
    assert _come_to(50.0, 0.0, sqrt(4.0)) == 50.0 + 2 / 25.0
    assert _come_to(40.0, 0.0, 1.0) < inf


def test_seconds_have_three_decimals() -> None:
    """Equal predictions stay equal through logs."""
    batches = SubmissionBatches()
    batches.submitted("a", "key", 0.0, 100.12345)
    assert batches.predict("a", 0.0) == (100.123, False)
