"""The door to what is known of sharing: which evidence answers, and how sure it is."""

from math import nan

import pytest

from slurm_ext.core.gpu_sharing import CorunMeasurement, RelativeSpeed, SoloProfile, SpeedBasis
from slurm_ext.model.slowdown.composition import compose
from slurm_ext.model.slowdown.model import SlowdownModel, slowdown_model

A, B, C, D = (SoloProfile(key=name) for name in "abcd")


def met(job: str, partner: str, speed: float, *, seconds: float = 600.0) -> CorunMeasurement:
    """A run of one beside another on the CPUs."""
    return CorunMeasurement(job=job, partners=(partner,), speed=speed, seconds=seconds)


SOME = [met("a", "b", 0.9), met("b", "a", 0.8), met("a", "c", 0.5), met("c", "a", 0.95)]


def test_alone_nobody_is_slowed() -> None:
    """Without a partner there is nothing to foretell."""
    assert SlowdownModel().speed(A, []).low == 1.0


def test_without_evidence_the_bound_is_low() -> None:
    """Jobs in general: no floor that a site would set is promised."""
    for device in ("cpu", "NVIDIA A100"):
        told = SlowdownModel().speed(A, [B], device)
        assert told.evidence is SpeedBasis.PRIOR
        assert told.low < 0.5 < told.mean < told.high


def test_the_strongest_evidence_answers() -> None:
    """The pair, then the table that both are in, then jobs in general."""
    known = slowdown_model(SOME)
    assert known.speed(A, [B]).evidence is SpeedBasis.PAIR
    assert known.speed(B, [C]).evidence is SpeedBasis.COMPLETED
    assert known.speed(A, [D]).evidence is SpeedBasis.PRIOR
    assert known.speed(A, [B], "NVIDIA A100").evidence is SpeedBasis.PRIOR
    assert known.speed(A, [B]).runs == 1


def test_counters_answer_for_jobs_never_met() -> None:
    """And where they are lacking, jobs in general; what was met counts more than either."""
    counted = RelativeSpeed(mean=0.7, low=0.6, high=0.8, evidence=SpeedBasis.COUNTERS)
    known = slowdown_model(SOME, by_counters=lambda job, *_: counted if job.key == "a" else None)
    assert known.speed(A, [D]) == counted
    assert known.speed(D, [A]).evidence is SpeedBasis.PRIOR
    assert known.speed(B, [C]).evidence is SpeedBasis.COMPLETED
    assert known.speed(A, [B]).evidence is SpeedBasis.PAIR


def test_runs_make_surer() -> None:
    """The more a pair's runs agree, the nearer the bound comes to what they measured."""
    lows = [slowdown_model([met("a", "b", 0.9)] * runs).speed(A, [B]).low for runs in (1, 3, 10)]
    assert lows == sorted(lows)
    assert 0.8 < lows[-1] < 0.9


def test_seconds_make_surer() -> None:
    """A glance of five seconds moves the belief less than an hour."""
    short, long = (
        slowdown_model([met("a", "b", 0.5, seconds=seconds)]).speed(A, [B]) for seconds in (5, 3600)
    )
    assert abs(long.mean - 0.5) < abs(short.mean - 0.5)
    assert long.high - long.low < short.high - short.low


@pytest.mark.parametrize("history", [[0.95, 0.4], [0.9, 0.9, 0.9, 0.3], [1.0, 0.5, 1.0, 0.5]])
def test_a_history_that_contradicts_itself_is_not_shared(history: list[float]) -> None:
    """Its bound falls well below what its better runs showed."""
    told = slowdown_model([met("a", "b", speed) for speed in history]).speed(A, [B])
    assert told.low < 0.55
    assert told.low < slowdown_model([met("a", "b", told.mean)]).speed(A, [B]).low


@pytest.mark.parametrize("speed", [nan, -0.5, 0.0, 1e9])
def test_what_is_no_measurement_is_counted_and_not_used(speed: float) -> None:
    """Broken clocks and counters teach nothing."""
    known = slowdown_model([met("a", "b", speed), met("a", "b", 0.9, seconds=nan)])
    assert known.refused == 2
    assert known.speed(A, [B]) == SlowdownModel().speed(A, [B])


def test_more_partners_are_never_safer() -> None:
    """The bound beside two is below that beside either; measured together, that counts."""
    known = slowdown_model(SOME)
    both = known.speed(A, [B, C])
    assert both.low < min(known.speed(A, [B]).low, known.speed(A, [C]).low)
    three = CorunMeasurement(job="a", partners=("c", "b"), speed=0.3, seconds=3600.0)
    seen = slowdown_model([*SOME, three]).speed(A, [B, C])
    assert seen.evidence is SpeedBasis.PAIR
    assert abs(seen.mean - 0.3) < abs(both.mean - 0.3)


def test_slices_of_time_add_up() -> None:
    """Three equal jobs that take turns have a third each."""
    half = RelativeSpeed(mean=0.5, low=0.4, high=0.6, evidence=SpeedBasis.PAIR, runs=2)
    told = compose([half, half], on_cpu=False)
    assert told.mean == pytest.approx(1 / 3)
    assert told.low == pytest.approx(0.16)
    assert told.runs == 2


def test_on_cpus_several_are_worse_than_their_product() -> None:
    """As was seen of neighbours of one kind: the bound is below the product of the bounds."""
    pair = RelativeSpeed(mean=0.9, low=0.8, high=1.0, evidence=SpeedBasis.PAIR, runs=2)
    told = compose([pair, pair], on_cpu=True)
    assert told.mean == pytest.approx(0.81)
    assert told.low < 0.64


def test_nobody_gains_from_company() -> None:
    """A pair measured faster than alone does not make up for another."""
    fast = RelativeSpeed(mean=1.2, low=1.1, high=1.3, evidence=SpeedBasis.PAIR)
    slow = RelativeSpeed(mean=0.5, low=0.4, high=0.6, evidence=SpeedBasis.PAIR)
    for on_cpu in (True, False):
        assert compose([fast, slow], on_cpu=on_cpu).mean == pytest.approx(0.5)


def test_the_weakest_pair_is_the_evidence() -> None:
    """A chain holds what its weakest link holds."""
    known = slowdown_model(SOME)
    assert known.speed(A, [B, D]).evidence is SpeedBasis.PRIOR
