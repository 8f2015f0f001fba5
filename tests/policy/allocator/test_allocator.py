"""The node allocator on cases small enough to follow by hand."""

from dataclasses import replace

import pytest

from slurm_ext.core.errors import InputError
from slurm_ext.policy.allocator.allocate import allocate
from slurm_ext.policy.allocator.job_demands import JobDemand
from slurm_ext.policy.allocator.operating_points import OperatingPoint


def curve(*rates: float, io: float = 0.0) -> tuple[OperatingPoint, ...]:
    """One offer for each of 1, 2, 3... units; `io`: bytes that a sample is."""
    return tuple(
        OperatingPoint(units=n, workers=n, samples_per_s=rate, io_bytes_per_s=rate * io)
        for n, rate in enumerate(rates, 1)
    )


def demand(
    job: str,
    points: tuple[OperatingPoint, ...],
    share: int = 3,
    *,
    agreed: bool = False,
    least: int = 1,
) -> JobDemand:
    """A job that has just started."""
    return JobDemand(
        job=job, points=points, share_units=share, now=None, agreed=agreed, least_units=least
    )


def test_cores_go_from_who_cannot_use_them_to_who_can() -> None:
    """A flat job does without what a steep one gains from, and the reasons say so."""
    told = allocate([demand("flat", curve(9, 9, 9)), demand("steep", curve(1, 2, 3, 4, 5))], 6)
    assert {job: point.units for job, point in told.points.items()} == {"flat": 1, "steep": 5}
    assert told.reason["flat"] == "has no use for 2 units of its share"
    assert told.reason["steep"] == "2 units beyond its share: +67%"


def test_a_step_in_a_curve_is_reached_across_a_plateau() -> None:
    """A curve that gains nothing from the next unit and much from the third is not given up on."""
    step = demand("step", curve(10, 10, 10, 30), share=1)
    slope = demand("slope", curve(10, 11, 12, 13), share=1)
    told = allocate([step, slope], 5)
    assert told.points["step"].samples_per_s == 30


def test_nobody_pays_for_another_without_having_agreed() -> None:
    """Even where the sum would gain much, a job keeps the rate of its share; agreeing frees it."""
    poor, rich = curve(10, 20, 30), curve(5, 6, 7, 21, 35)
    kept = allocate([demand("poor", poor), demand("rich", rich)], 6)
    assert kept.points["poor"].units == 3
    freed = allocate([demand("poor", poor, agreed=True), demand("rich", rich)], 6)
    assert freed.points["poor"].units == 1
    assert freed.reason["poor"] == "does without 2 units of its share, as agreed: -67%"


def test_the_promise_is_the_share_as_the_user_wrote_the_job() -> None:
    """What workers that were added bring is not promised: those units may go to other jobs."""
    sleeper, steep = demand("sleeper", curve(260, 330), share=2), demand("steep", curve(1, 2, 3), 2)
    as_it_could_be = allocate([sleeper, steep], 4)
    assert as_it_could_be.points["sleeper"].units == 2
    baseline = OperatingPoint(units=2, workers=2, samples_per_s=120)
    as_it_is = allocate([replace(sleeper, baseline=baseline, weight=0.3), steep], 4)
    assert as_it_is.points["sleeper"].units == 1
    assert as_it_is.points["steep"].units == 3


def test_a_job_written_better_than_it_can_be_is_promised_what_it_can_be() -> None:
    """More workers than memory holds: the promise is the best that its share can give."""
    baseline = OperatingPoint(units=3, workers=90, samples_per_s=1e9)
    told = allocate([replace(demand("a", curve(1, 2, 3)), baseline=baseline)], 3)
    assert told.points["a"].samples_per_s == 3


def test_an_accelerator_keeps_its_cores_whatever_was_agreed() -> None:
    """`least_units` holds for a job that agreed to fall below its share too."""
    told = allocate(
        [demand("a", curve(10, 20, 30), agreed=True, least=2), demand("b", curve(5, 6, 7, 21))], 6
    )
    assert told.points["a"].units == 2


def test_half_a_per_cent_is_no_loss() -> None:
    """A modelled curve rises to its end: what no measurement would show does not hold units."""
    nearly = demand("nearly", curve(99.6, 99.8, 100.0))
    told = allocate([nearly, demand("steep", curve(1, 2, 3, 4, 5))], 6)
    assert told.points["nearly"].units == 1
    assert told.reason["nearly"] == "has no use for 2 units of its share"
    clearly = demand("clearly", curve(99.0, 99.0, 100.0))
    assert (
        allocate([clearly, demand("steep", curve(1, 2, 3, 4, 5))], 6).points["clearly"].units == 3
    )


def test_units_that_nobody_gains_from_stay_with_their_owners() -> None:
    """Two flat jobs keep their shares; what is beyond all shares is told as spare."""
    told = allocate([demand("a", curve(*[5.0] * 8)), demand("b", curve(*[7.0] * 8))], 8)
    assert [point.units for point in told.points.values()] == [3, 3]
    assert told.spare_units == 2


def test_the_last_two_per_cent_are_for_units_that_nobody_else_needs() -> None:
    """A unit goes to who gains 1.5 % of its maximum only while nobody gains more from it."""
    nearly = demand("nearly", curve(98.5, 100), share=1)
    needy = demand("needy", curve(10, 10.5), share=1)
    assert allocate([nearly, needy], 3).points["needy"].units == 2
    assert allocate([nearly, demand("flat", curve(10, 10), share=1)], 3).points["nearly"].units == 2


@pytest.mark.parametrize(
    ("points", "why"),
    [
        ((), "nothing is known of its curve yet"),
        (curve(1, float("nan"), 3), "a rate that is not a positive number"),
        (curve(1, -2, 3), "a rate that is not a positive number"),
        (curve(0.0, 0.0), "a rate that is not a positive number"),
        (curve(1, float("inf")), "a rate that is not a positive number"),
        (curve(1, 2, 3)[::-1], "not in ascending order of units"),
        (curve(1, 2) + curve(3), "not in ascending order of units"),
        (curve(1, 2, io=-1), "storage"),
        ((OperatingPoint(units=1, workers=-1, samples_per_s=1),), "negative number of workers"),
        ((OperatingPoint(units=5, workers=1, samples_per_s=1),), "within its share of 3 units"),
        (curve(1, 2, 3, 1e9), "claim more from further units than any training gains"),
        (curve(1e-300, 1e-300, 1e-300, 1), "claim more from further units"),
    ],
)
def test_a_job_of_unusable_offers_keeps_its_share(
    points: tuple[OperatingPoint, ...], why: str
) -> None:
    """It is said why, its workers are left alone, and the others are still served."""
    told = allocate([demand("bad", points), demand("good", curve(1, 2, 3, 4, 5))], 7)
    assert (told.points["bad"].units, told.points["bad"].workers) == (3, None)
    assert why in told.reason["bad"]
    assert told.points["good"].units == 4


@pytest.mark.parametrize(
    ("demands", "units", "why"),
    [
        ([], 0, "0 units to divide"),
        ([demand("a", curve(1, 2))], -1, "-1 units to divide"),
        ([demand("a", curve(1, 2), share=5)], 4, "share of 5 units is not in 1 to 4"),
        ([demand("a", curve(1, 2), share=0)], 4, "share of 0 units is not in 1 to 4"),
        ([demand("a", curve(1)), demand("b", curve(1))], 4, "shares of 6 units are promised"),
        ([demand("a", curve(1), 1), demand("a", curve(1), 1)], 4, "named twice"),
        ([demand("a", curve(1), least=-1)], 4, "least_units = -1"),
    ],
)
def test_a_node_that_cannot_be_divided_is_named(
    demands: list[JobDemand], units: int, why: str
) -> None:
    """What makes the promises impossible is an error that names node or job and the figure."""
    with pytest.raises(InputError, match=why):
        allocate(demands, units)


@pytest.mark.parametrize("storage", [0.0, -1.0, float("nan"), float("inf")])
def test_a_storage_that_cannot_be_is_named(storage: float) -> None:
    """Unknown is None; zero, less or no number is an error."""
    with pytest.raises(InputError, match="storage of"):
        allocate([demand("a", curve(1, 2, 3))], 4, io_bytes_per_s=storage)


def test_equal_jobs_are_told_apart_by_name_only() -> None:
    """Which of two equal jobs gets the odd unit does not depend on which is named first."""
    twins = [demand("a", curve(1, 2, 3, 4)), demand("b", curve(1, 2, 3, 4))]
    assert allocate(twins, 7) == allocate(twins[::-1], 7)


@pytest.mark.parametrize("owner", ["a", "b"])
def test_of_equal_divisions_the_present_one_stays(owner: str) -> None:
    """The odd unit is left with whichever of two equal jobs has it."""
    rates = curve(1, 2, 3, 4)
    has = {"a": rates[2], "b": rates[2]} | {owner: rates[3]}
    twins = [replace(demand(job, rates), now=has[job]) for job in ("a", "b")]
    assert allocate(twins, 7).points[owner].units == 4


def test_an_empty_node_has_all_units_spare() -> None:
    """No tenants is no error."""
    told = allocate([], 8)
    assert (dict(told.points), told.spare_units) == ({}, 8)


def test_storage_is_shared_as_it_shares_itself() -> None:
    """Two alike have half each; a core that would only wait for storage goes elsewhere."""
    readers = [demand(job, curve(10, 20, 30, 40, io=1.0), share=2) for job in ("a", "b")]
    told = allocate([*readers, demand("c", curve(1, 2, 3, 4), share=2)], 6, io_bytes_per_s=20.0)
    assert told.points["a"].samples_per_s == told.points["b"].samples_per_s == 10
    assert told.points["c"].units == 4


def test_nobody_is_slowed_down_by_what_others_read_more() -> None:
    """A job that needs its bandwidth keeps the rate that it had when all had their shares."""
    reader = demand("reader", curve(60, 60, 60, io=1.0))
    eager = demand("eager", curve(10, 20, 30, 80, 100, io=1.0))
    told = allocate([reader, eager], 6, io_bytes_per_s=90.0)
    assert told.points["reader"].samples_per_s == 60


def test_cores_that_would_only_read_more_go_to_a_job_that_reads_nothing() -> None:
    """Two jobs fill the storage at their shares: more cores would bring them nothing."""
    jobs = [
        demand("none", curve(20, 60, 80, 90), share=2),
        demand("one", curve(30, 60, 70, 90, io=2.0), share=2),
        demand("other", curve(10, 10, 50, 80, io=2.0), share=2),
    ]
    told = allocate(jobs, 6, io_bytes_per_s=60.0)
    found = {job: (have.units, have.samples_per_s) for job, have in told.points.items()}
    assert found == {"none": (4, 90), "one": (1, 20), "other": (1, 10)}
