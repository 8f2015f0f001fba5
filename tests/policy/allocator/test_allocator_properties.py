"""What holds for every division of a node, whatever the jobs."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.policy.allocator.allocate import KEPT, Allocation, allocate, at_shares
from slurm_ext.policy.allocator.job_demands import JobDemand, unusable
from slurm_ext.policy.allocator.knapsack_dp import ENOUGH, JobOptions, divide, enough, value
from slurm_ext.policy.allocator.operating_points import OperatingPoint

SLACK = 1e-6
RATES = st.floats(1, 12)  # a few curves among them claim too much


@st.composite
def curves(draw: st.DrawFn, most_units: int = 8) -> tuple[OperatingPoint, ...]:
    """Any rates, rising or not, at any set of units; bytes of a sample are the same everywhere."""
    units = sorted(draw(st.sets(st.integers(1, most_units), min_size=1)))
    bytes_per_sample = draw(st.sampled_from([0.0, 0.5, 1.0, 20.0]))
    scale = draw(st.sampled_from([1e-6, 1.0, 1e5]))
    rates = [
        scale * rate for rate in draw(st.lists(RATES, min_size=len(units), max_size=len(units)))
    ]
    return tuple(
        OperatingPoint(
            units=n, workers=n, samples_per_s=rate, io_bytes_per_s=rate * bytes_per_sample
        )
        for n, rate in zip(units, rates, strict=True)
    )


@st.composite
def demands(draw: st.DrawFn, most: int = 4) -> list[JobDemand]:
    """Jobs of every sort: known and unknown, agreed or not, started or running."""
    told = []
    for number in range(draw(st.integers(1, most))):
        points = draw(st.one_of(curves(), st.just(())))
        told.append(
            JobDemand(
                job=f"{number}",
                points=points,
                share_units=draw(st.integers(1, 5)),
                now=draw(st.sampled_from([None, *points])),
                agreed=draw(st.booleans()),
                least_units=draw(st.integers(0, 6)),
                weight=draw(st.sampled_from([1.0, 1.0, 3.0])),
            )
        )
    return told


def units_of(jobs: Sequence[JobDemand], more: int) -> int:
    """A node that holds all shares, and `more`."""
    return sum(job.share_units for job in jobs) + more


@given(demands(), st.integers(0, 6), st.one_of(st.none(), st.floats(0.1, 1e5)))
def test_promises_are_kept(jobs: list[JobDemand], more: int, io: float | None) -> None:
    """The node's units and bandwidth suffice, nobody falls below his share, no GPU is stranded."""
    units = units_of(jobs, more)
    told = allocate(jobs, units, io_bytes_per_s=io)
    assert set(told.points) == set(told.reason) == {job.job for job in jobs}
    used = sum(point.units for point in told.points.values())
    assert used + told.spare_units == units
    assert told.spare_units >= 0
    if io is not None:
        assert sum(point.io_bytes_per_s for point in told.points.values()) <= io * (1 + SLACK)
    ordered = sorted(jobs, key=lambda job: job.job)
    for job, share in zip(ordered, at_shares(ordered, io), strict=True):
        _check_one(job, share, told.points[job.job])


def _check_one(job: JobDemand, share: OperatingPoint, has: OperatingPoint) -> None:
    if unusable(job):
        assert (has.units, has.workers) == (job.share_units, None)
        return
    assert has.units >= min(job.least_units, job.share_units)
    if not job.agreed:
        assert has.samples_per_s >= KEPT * share.samples_per_s * (1 - SLACK)
    assert any((has.units, has.workers) == (one.units, one.workers) for one in job.points)


@given(demands(), st.integers(0, 6), st.one_of(st.none(), st.floats(0.1, 1e5)))
def test_never_worse_than_everybody_at_his_share(
    jobs: list[JobDemand], more: int, io: float | None
) -> None:
    """The objective is at least what Slurm's own division gives: the sum of weights."""
    told = allocate(jobs, units_of(jobs, more), io_bytes_per_s=io)
    assert told.value >= sum(job.weight for job in jobs) * (1 - SLACK)


@given(demands(), st.integers(0, 6), st.randoms(use_true_random=False))
def test_the_order_of_jobs_does_not_matter(
    jobs: list[JobDemand], more: int, shuffler: random.Random
) -> None:
    """Whichever job is named first, each gets the same."""
    turned = list(jobs)
    shuffler.shuffle(turned)
    units = units_of(jobs, more)
    assert allocate(jobs, units) == allocate(turned, units)


@given(demands(), st.integers(0, 6))
def test_a_jobs_end_leaves_a_node_that_can_be_divided(jobs: list[JobDemand], more: int) -> None:
    """Whoever goes, the others' division is valid, and not worse for them in sum."""
    units = units_of(jobs, more)
    before = allocate(jobs, units)
    for gone in jobs:
        left = [_running(job, before) for job in jobs if job is not gone]
        told = allocate(left, units)
        assert sum(point.units for point in told.points.values()) <= units
        assert told.value >= ENOUGH * _value_without(jobs, before, gone) * (1 - SLACK)


def _running(job: JobDemand, told: Allocation) -> JobDemand:
    return replace(job, now=told.points[job.job])


def _value_without(jobs: Sequence[JobDemand], told: Allocation, gone: JobDemand) -> float:
    """What the others' part of the objective was."""
    ordered = sorted(jobs, key=lambda job: job.job)
    return sum(
        job.weight
        * (told.points[job.job].samples_per_s / share.samples_per_s if share.samples_per_s else 1)
        for job, share in zip(ordered, at_shares(ordered), strict=True)
        if job is not gone
    )


@given(demands(), st.integers(0, 6))
def test_once_divided_it_stays_divided(jobs: list[JobDemand], more: int) -> None:
    """With the same curves and what it gave as the present, the answer is the same."""
    units = units_of(jobs, more)
    first = allocate(jobs, units)
    again = allocate([_running(job, first) for job in jobs], units)
    assert {job: one.units for job, one in again.points.items()} == {
        job: one.units for job, one in first.points.items()
    }


@st.composite
def choices(draw: st.DrawFn) -> JobOptions:
    """Options of one tenant, the cheapest of which is its share."""
    options = draw(curves(most_units=6))
    return JobOptions(
        options=options,
        level=draw(st.sampled_from([float("inf"), 5.0])),
        enough_samples_per_s=enough([one.samples_per_s for one in options]),
        share_samples_per_s=draw(RATES),
        share_units=options[0].units,
        now=draw(st.sampled_from([None, *options])),
        weight=draw(st.sampled_from([1.0, 2.5])),
    )


@given(st.lists(choices(), max_size=4), st.integers(0, 8))
def test_no_division_is_better(jobs: list[JobOptions], more: int) -> None:
    """Against every possible division: the same value, changes and nearness to shares included."""
    units = sum(job.options[0].units for job in jobs) + more or 1
    worths = [_worth(jobs, points, units) for points in _every(jobs, units)]
    best = max(worths)
    assert _worth(jobs, divide(jobs, units), units) >= best - 1e-9 * max(1.0, abs(best))


def _every(jobs: Sequence[JobOptions], units: int) -> Iterator[tuple[OperatingPoint, ...]]:
    for points in product(*(job.options for job in jobs)):
        if sum(point.units for point in points) <= units:
            yield points


def _worth(jobs: Sequence[JobOptions], points: Sequence[OperatingPoint], units: int) -> float:
    return sum(value(job, point, units) for job, point in zip(jobs, points, strict=True))
