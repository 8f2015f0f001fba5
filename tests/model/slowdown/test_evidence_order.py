"""How a speed is composed of its evidence, by the formulas."""

from math import exp, log, sqrt

import pytest

from slurm_ext.core.gpu_sharing import (
    CorunMeasurement,
    RelativeSpeed,
    SoloProfile,
    SpeedBasis,
)
from slurm_ext.model.slowdown.composition import compose
from slurm_ext.model.slowdown.model import (
    FASTEST,
    HIGH_SDS,
    IN_GENERAL,
    LEAST_SD,
    LOW_SDS,
    MOST_SEEN,
    ON_A_GPU,
    SlowdownModel,
    measured_pairs,
    slowdown_model,
)
from slurm_ext.model.slowdown.pair_measurement import key, pair_stats

A, B, C = (SoloProfile(key=name) for name in "abc")


def met(
    *partners: str, job: str = "a", speed: float = 0.5, device: str = "cpu"
) -> CorunMeasurement:
    """A minute of one job beside others."""
    return CorunMeasurement(job=job, partners=partners, speed=speed, seconds=60.0, device=device)


@pytest.mark.parametrize(
    ("device", "prior"), [("cpu", IN_GENERAL["cpu"]), ("v100", ON_A_GPU), ("other", ON_A_GPU)]
)
def test_jobs_in_general(device: str, prior: tuple[float, float]) -> None:
    """The prior of the kind of device, as wide as its evidence's factor says."""
    speed = SlowdownModel().speed(A, [B], device)
    assert speed.evidence is SpeedBasis.PRIOR
    assert log(speed.mean) == pytest.approx(prior[0])
    assert speed.runs == 0
    assert log(speed.low) == pytest.approx(prior[0] - LOW_SDS * prior[1])
    assert log(speed.high) == pytest.approx(min(FASTEST, prior[0] + HIGH_SDS * prior[1]))
    wide = SlowdownModel(widths={SpeedBasis.PRIOR: 2.0, SpeedBasis.PAIR: 9.0}).speed(A, [B], device)
    assert log(wide.low) == pytest.approx(prior[0] - 2 * LOW_SDS * prior[1])


def test_runs_shrink_what_counters_say() -> None:
    """Without a table: precision-weighted in logs, and the next run's own spread on top."""
    row = met("b")
    counters = RelativeSpeed(mean=0.8, low=0.6, high=0.9, evidence=SpeedBasis.COUNTERS)
    model = SlowdownModel(
        met={key("a", ["b"], "cpu"): pair_stats([row])}, by_counters=lambda *_: counters
    )
    stats = pair_stats([row])
    sd = log(0.8 / 0.6) / LOW_SDS
    share = sd**2 / (sd**2 + stats.log_sd**2)
    mean = log(0.8) + share * (log(0.5) - log(0.8))
    wide = sqrt(sd**2 * (1 - share) + stats.spread**2)
    speed = model.speed(A, [B])
    assert (speed.evidence, speed.runs) == (SpeedBasis.PAIR, 1)
    assert log(speed.mean) == pytest.approx(mean)
    assert log(speed.low) == pytest.approx(mean - LOW_SDS * wide)
    assert model.speed(B, [A]) == counters
    sure = RelativeSpeed(mean=0.8, low=0.7999, high=0.81, evidence=SpeedBasis.COUNTERS)
    share = LEAST_SD**2 / (LEAST_SD**2 + stats.log_sd**2)
    near = SlowdownModel(met=model.met, by_counters=lambda *_: sure).speed(A, [B])
    assert log(near.mean) == pytest.approx(log(0.8) + share * (log(0.5) - log(0.8)))


def test_a_triple_is_its_own_pair() -> None:
    """Three together that were measured count; two of them do not stand for it."""
    rows = [met("b", "c", speed=0.3)]
    model = slowdown_model(rows)
    assert model.devices == {"cpu"}
    assert model.speed(A, [B, C]).evidence is SpeedBasis.PAIR
    assert model.speed(A, [C, B]) == model.speed(A, [B, C])
    assert model.speed(A, [B]).evidence is SpeedBasis.PRIOR
    assert measured_pairs(model, True) == []
    composed = SlowdownModel().speed(A, [B, C])
    assert 0.3 < model.speed(A, [B, C]).mean < composed.mean


@pytest.mark.parametrize("device", ["cpu", "v100"])
def test_speeds_beside_several_are_composed_by_the_kind_of_device(device: str) -> None:
    """On CPUs speeds multiply, on a GPU slowdowns add: what was measured of two gives three's."""
    rows = [met("b", speed=0.6, device=device), met("c", speed=0.7, device=device)]
    model = slowdown_model(rows)
    pairs = [model.speed(A, [one], device) for one in (B, C)]
    both = model.speed(A, [B, C], device)
    assert both == compose(pairs, on_cpu=device == "cpu")
    assert both != compose(pairs, on_cpu=device != "cpu")


def test_tables_are_of_one_kind_of_device_and_of_the_best_pairs() -> None:
    """CPUs apart from GPUs; the best measured first, at most MOST_SEEN."""
    rows = [met("b"), met("c", device="v100"), met("c"), met("c"), met("b", "c")]
    model = slowdown_model([*rows, met("b", speed=0.0)])
    assert model.refused == 1
    on_cpu = [(pair.job, pair.partner, pair.device) for pair in measured_pairs(model, True)]
    assert on_cpu == [("a", "c", "cpu"), ("a", "b", "cpu")]
    assert [pair.device for pair in measured_pairs(model, False)] == ["v100"]
    many = {key(f"j{at}", ["b"], "cpu"): pair_stats([met("b")]) for at in range(MOST_SEEN + 1)}
    assert len(measured_pairs(SlowdownModel(met=many), True)) == MOST_SEEN


def test_the_completed_table_answers_for_pairs_that_were_not_seen() -> None:
    """Both jobs beside others on that device; another device or a new job is the prior."""
    rows = [met("b", speed=0.9), met("c", job="b", speed=0.9), met("b", job="c", speed=0.9)]
    model = slowdown_model(rows)
    completed = model.speed(A, [C])
    table = model.tables[True]
    mean, sd = table.predict("a", "c", "cpu")
    wide = sqrt(sd**2 + table.kernel.noise_var)
    assert (completed.evidence, completed.runs) == (SpeedBasis.COMPLETED, 0)
    assert (completed.mean, completed.low) == pytest.approx((exp(mean), exp(mean - LOW_SDS * wide)))
    assert model.speed(A, [SoloProfile(key="new")]).evidence is SpeedBasis.PRIOR
    assert model.speed(A, [C], "v100").evidence is SpeedBasis.PRIOR
    pair = model.speed(A, [B])
    mean, sd = table.predict("a", "b", "cpu")
    spread = model.met[key("a", ["b"], "cpu")].spread
    assert log(pair.mean) == pytest.approx(mean)
    assert log(pair.low) == pytest.approx(mean - LOW_SDS * sqrt(sd**2 + spread**2))
