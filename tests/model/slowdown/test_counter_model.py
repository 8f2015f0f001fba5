"""A job's speed beside one never met, from counters: sane, honest about gaps, reproduced."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slurm_ext.core.errors import ModelError
from slurm_ext.core.gpu_sharing import SoloProfile, SpeedBasis
from slurm_ext.core.stats import NORMAL_90
from slurm_ext.model.slowdown.counter_artifact import from_json, to_json
from slurm_ext.model.slowdown.counter_kernel import CounterKernel, kernel_blocks, prior_variances
from slurm_ext.model.slowdown.counter_model import (
    CounterModel,
    PairObservations,
    collect_jobs,
    log_odds,
    noise_var,
    speed_of,
    view,
)
from slurm_ext.model.slowdown.features import CounterColumn, fit_scale

COLUMNS = (
    CounterColumn("util"),
    CounterColumn("kernel_us", 20.0),
    CounterColumn("misses", 1e-3, "instructions"),
)
TOP = 1.05


def solo(number: int, **more: float) -> SoloProfile:
    """Jobs of growing load: the higher the number, the busier."""
    features = {"util": 10.0 * number, "kernel_us": 5.0 * 2**number, "misses": number * 1e3}
    return SoloProfile(key=f"job{number}", features={**features, "instructions": 1e6, **more})


def speed(a: int, b: int) -> float:
    """The busier the companion, the slower."""
    return 1.0 / (1.0 + 0.02 * b * (1.0 + 0.1 * a))


@pytest.fixture(scope="module")
def model() -> CounterModel:
    """Six jobs, every pair of them measured."""
    pairs = [(solo(a), solo(b)) for a in range(1, 7) for b in range(1, 7)]
    among = fit_scale(COLUMNS, [solo(n).features for n in range(1, 7)])
    jobs, rows = collect_jobs(among, pairs)
    speeds = np.array([speed(int(a.key[3:]), int(b.key[3:])) for a, b in pairs])
    likeness = CounterKernel()
    met = PairObservations(rows, log_odds(speeds, TOP), noise_var(likeness, speeds, TOP))
    views = tuple(view(likeness, jobs, met, columns) for columns in ((0,), (0, 1, 2)))
    return CounterModel("v100", among, likeness, jobs, met, views, TOP)


def test_a_busier_companion_slows_more_and_the_bounds_hold_the_mean(model: CounterModel) -> None:
    """A job never met is told between its likes; low < mean < high, all physical."""
    asked = SoloProfile(key="new", features=solo(3, util=35.0).features)
    told = [model.speed(asked, solo(n)) for n in (1, 3, 6)]
    assert [one.mean for one in told] == sorted((one.mean for one in told), reverse=True)
    for one in told:
        assert 0 < one.low < one.mean < one.high <= TOP
        assert one.evidence is SpeedBasis.COUNTERS
    assert told[1].mean == pytest.approx(speed(3, 3), abs=0.05)


def test_beyond_all_known_jobs_the_trend_goes_on_to_an_end(model: CounterModel) -> None:
    """A companion busier than any known slows more, less surely; an absurd one as the far end."""
    known, busier, far, absurd = (
        model.speed(solo(3), SoloProfile(key="new", features=solo(n).features))
        for n in (6, 7, 20, 40)
    )
    assert busier.mean < known.mean
    assert busier.high - busier.low > known.high - known.low
    assert absurd.mean == pytest.approx(far.mean)


def test_many_are_told_as_each_alone(model: CounterModel) -> None:
    """Speeds of a list are the speeds of its pairs, whatever else is asked."""
    pairs = [(solo(a), solo(b)) for a in (1, 4) for b in (2, 6)]
    together = model.speeds(pairs)
    alone = [model.speed(a, b) for a, b in pairs]
    assert together.mean == pytest.approx([one.mean for one in alone])
    assert together.low == pytest.approx([one.low for one in alone])
    assert len(model.speeds([]).mean) == 0


def test_a_lacking_counter_widens(model: CounterModel) -> None:
    """Not measured is not 0: the interval grows with each gap; without any the model is silent."""
    whole = solo(5).features
    gaps = [{}, {"misses"}, {"misses", "kernel_us"}, set(whole)]
    profiles = [{k: v for k, v in whole.items() if k not in gap} for gap in gaps]
    speeds = [model.speed(SoloProfile(key="new", features=kept), solo(5)) for kept in profiles]
    widths = [speed.high - speed.low for speed in speeds]
    assert widths == sorted(widths)
    nothing = SoloProfile(key="new")
    assert model.predict(nothing, solo(1), "v100") is None
    assert model.predict(solo(1), solo(2), "cpu") is None
    assert model.predict(solo(1), solo(2), "v100") == model.speed(solo(1), solo(2), "v100")


def test_bounds_that_whole_profiles_earned_are_not_for_jobs_without(model: CounterModel) -> None:
    """Nothing known: the process's own 90 %; everything known: what was calibrated."""
    narrow, nominal = (replace(model, widths=(width, width)) for width in (0.4, NORMAL_90))
    unknown, known = SoloProfile(key="new"), SoloProfile(key="new", features=solo(3).features)
    assert narrow.speed(unknown, solo(1)) == nominal.speed(unknown, solo(1))
    assert narrow.speed(known, solo(1)).low > nominal.speed(known, solo(1)).low


def test_another_gpu_is_told_less_surely(model: CounterModel) -> None:
    """Same mean, wider bounds."""
    here, there = (model.speed(solo(2), solo(4), device) for device in ("v100", "k80"))
    assert here.mean == there.mean
    assert there.low < here.low < here.high < there.high


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1e300, 1e300, 0.0])
def test_an_absurd_counter_hurts_nobody(model: CounterModel, value: float) -> None:
    """Whatever was counted, the answer is a speed."""
    features = dict.fromkeys(("util", "kernel_us", "misses", "instructions"), value)
    told = model.speed(SoloProfile(key="odd", features=features), solo(3))
    assert 0 < told.low <= told.mean <= told.high <= TOP


def test_odds_and_speeds_are_inverse() -> None:
    """Between the ends nothing is lost; beyond them a speed is the end's."""
    speeds = np.linspace(0.05, 1.0, 20)
    assert speed_of(log_odds(speeds, TOP), TOP) == pytest.approx(speeds)
    assert np.isfinite(log_odds(np.array([0.0, 9.0]), TOP)).all()


def test_the_covariance_is_one_also_with_gaps() -> None:
    """Never a negative variance, jobs half known, unknown or twice included."""
    rng = np.random.default_rng(0)
    jobs = [solo(int(n)) for n in rng.integers(1, 7, 12)]
    few = [
        SoloProfile(
            key=one.key, features={k: v for k, v in one.features.items() if rng.random() < 0.6}
        )
        for one in jobs
    ]
    among = fit_scale(COLUMNS, [solo(n).features for n in range(1, 7)])
    every, rows = collect_jobs(among, [(a, b) for a in [*few, SoloProfile(key="")] for b in few])
    own = np.array([[float(a == b) for b in every.keys] for a in every.keys])
    parts = kernel_blocks(CounterKernel(), every.places, every.places, own)
    between = parts.between(rows, rows)
    assert np.linalg.eigvalsh(between).min() > -1e-9
    prior = prior_variances(CounterKernel(), every.places, rows)
    assert (prior >= np.diag(between) - 1e-9).all()


def test_what_is_packed_is_read_back_exactly(model: CounterModel) -> None:
    """Through JSON text, to the last bit; the same model packs to the same text."""
    text = json.dumps(to_json(model))
    again = from_json(json.loads(text))
    assert json.dumps(to_json(again)) == text
    assert again.speed(solo(2), solo(6)) == model.speed(solo(2), solo(6))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("device", None),
        ("top", -1),
        ("top", "fast"),
        ("columns", [["util"]]),
        ("centre", [1.0]),
        ("spread", [0.0, 1.0, 1.0]),
        ("correlation", "none"),
        ("likeness", {"length": 1.0, "bend": 2.0}),
        ("likeness", {"length": -1.0}),
        ("keys", ["a"]),
        ("at", [[1.0]]),
        ("met", [[0, 1], [0, 99]]),
        ("met", [[-1], [0]]),
        ("log_odds", []),
        ("log_odds", [float("nan")] * 36),
        ("noise_var", [0.0] * 36),
        ("views", [[7]]),
        ("views", [[]]),
        ("references", {"a": 0.0}),
        ("widths", [1.0]),
    ],
)
def test_a_torn_model_is_refused(model: CounterModel, name: str, value: Any) -> None:
    """One ModelError that says to train again, never a model that answers nonsense."""
    body = to_json(model)
    body[name] = value
    if value is None:
        del body[name]
    with pytest.raises(ModelError, match="train again"):
        from_json(body)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("centre", [1.0], "centre: expected (3,) finite numbers"),
        ("spread", [0.0, 1.0, 1.0], "spread: expected numbers above 0"),
        ("noise_var", [0.0] * 36, "noise_var: expected numbers above 0"),
        ("met", [[-1] * 36, [0] * 36], "met: a row that is no job"),
        ("log_odds", [], "0 pairs met"),
        ("views", [[7]], "a view on columns [7]"),
    ],
)
def test_what_is_torn_is_named(model: CounterModel, name: str, value: Any, why: str) -> None:
    """The field, and what was expected of it."""
    with pytest.raises(ModelError) as caught:
        from_json(to_json(model) | {name: value})
    told = f"a model from counters: ValueError({why!r}); train again"
    assert str(caught.value) == told
