"""How CPUs are given as time: what each job is sure of, what it may have, who goes first."""

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.control.allocator.actuator import _grants
from slurm_ext.control.allocator.node import Machine
from slurm_ext.policy.allocator.operating_points import OperatingPoint

QUARTERS = Machine(real_cores=2, slurm_cpus=8, grain_cores=0.25, lends=True)
PLAIN = Machine(real_cores=2, slurm_cpus=8, grain_cores=0.25)


def job(share: int, used: float | None, *, agreed: bool = False) -> Any:
    """A job that uses this part of its cores; None: it has no curve."""
    part = 1.0 if used is None else used
    return SimpleNamespace(
        share_units=share, agreed=agreed, utilisation=lambda *_: part, curve=used
    )


def point(units: int) -> OperatingPoint:
    """So many units."""
    return OperatingPoint(units=units, workers=1, samples_per_s=1.0)


def test_what_the_light_ones_leave_is_lent_to_whoever_wants_more() -> None:
    """Two readers use half of theirs: the other has it on top, and they go before him."""
    controlled = {"hog": job(2, 1.0), "one": job(2, 0.5), "two": job(2, 0.5), "idle": job(2, 0.0)}
    points = {"hog": point(3), "one": point(2), "two": point(2), "idle": point(1)}
    parts = _grants(controlled, points, QUARTERS, 8)
    assert parts["hog"].cores == 0.75
    assert parts["hog"].most_cores == 1.5  # of 2.0 cores the readers use a quarter each
    assert parts["hog"].latency_weight == 1
    assert [parts[name].most_cores for name in ("one", "two", "idle")] == [0.5, 0.5, 0.5]
    assert (
        1
        < parts["one"].latency_weight
        == parts["two"].latency_weight
        < parts["idle"].latency_weight
    )


def test_an_unknown_job_may_have_what_is_free_and_plain_quotas_lend_nothing() -> None:
    """Of an unknown one nobody knows that it leaves anything, so that nobody is lent of it."""
    controlled = {"new": job(4, None), "hog": job(4, 1.0)}
    points = {"new": point(4), "hog": point(4)}
    lent = _grants(controlled, points, QUARTERS, 8)
    assert (lent["new"].most_cores, lent["hog"].most_cores) == (2.0, 1.0)
    assert lent["new"].latency_weight == lent["hog"].latency_weight == 1
    assert _grants(controlled, points, PLAIN, 8)["new"].most_cores == 1.0


def test_who_agreed_may_have_less_and_goes_before_nobody() -> None:
    """What it is sure of is what it was given; unused cores are lent to it all the same."""
    controlled = {"giver": job(4, 0.1, agreed=True), "taker": job(4, 1.0)}
    parts = _grants(controlled, {"giver": point(1), "taker": point(7)}, QUARTERS, 8)
    assert (parts["giver"].cores, parts["giver"].latency_weight) == (0.25, 1.0)
    assert parts["taker"].cores == 1.75


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 8), st.floats(0, 1)), min_size=1))
def test_nobody_is_held_below_his_share(rows: list[tuple[int, int, float]]) -> None:
    """Whatever is foretold: a share is never cut, by weight or by time, and weights are finite."""
    controlled = {str(n): job(share, used) for n, (share, _, used) in enumerate(rows)}
    points = {str(n): point(units) for n, (_, units, _) in enumerate(rows)}
    parts = _grants(controlled, points, QUARTERS, 8)
    for name, part in parts.items():
        assert part.most_cores >= part.cores >= controlled[name].share_units * 0.25
        assert 1 <= part.latency_weight <= 64
