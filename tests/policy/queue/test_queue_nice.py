"""Nice that puts waiting jobs in order: bounds, outsiders, and few changes."""

from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from slurm_ext.policy.queue.nice import NiceBounds, WaitingJob, in_order, nices


def standing(job: int, priority: int, nice: int = 0) -> WaitingJob:
    """A job whose id is its name."""
    return WaitingJob(job=str(job), priority=priority, nice=nice, tie=job)


def carried_out(order: list[WaitingJob], found: dict[str, int]) -> list[WaitingJob]:
    """What Slurm makes of it: a priority is never below 1."""
    return [
        replace(one, nice=found[one.job], priority=max(1, one.base - found[one.job]))
        if one.job in found
        else one
        for one in order
    ]


BOUNDS = st.builds(NiceBounds, most=st.integers(1, 5000), least=st.integers(-5000, 0))


@st.composite
def queues(draw: st.DrawFn, least: int = 1, most: int = 20_000) -> list[WaitingJob]:
    """Jobs in any order, some of which give way already."""
    bases = draw(st.lists(st.integers(least, most), max_size=12))
    ids = draw(st.permutations(range(1, len(bases) + 1)))
    nices_now = [draw(st.sampled_from([0, 0, 1, 40, 3000])) for _ in bases]
    kept = [min(nice, base - 1) for nice, base in zip(nices_now, bases, strict=True)]
    jobs = zip(ids, bases, kept, strict=True)
    return [standing(job, base - nice, nice) for job, base, nice in jobs]


def test_a_large_job_gives_way_as_far_as_it_must() -> None:
    """Behind the small one by no more than the gap; the small one stays as it is."""
    small, large = standing(9, 500), standing(2, 800)
    found = nices([small, large], NiceBounds(most=1000))
    assert found == {"2": 310}
    assert in_order(carried_out([small, large], found))


def test_a_newcomer_moves_nobody_who_stands_well() -> None:
    """Only whoever stood where it goes, and that one stops before the next."""
    order = [standing(3, 500), standing(1, 500), standing(2, 490, 10)]
    assert nices(order, NiceBounds(most=1000)) == {"1": 9}


def test_a_site_bounds_how_far_a_job_gives_way() -> None:
    """Whose own priority is higher by more than that stays in front."""
    small, large = standing(9, 500), standing(2, 800)
    assert nices([small, large], NiceBounds(most=100)) == {"2": 100}


def test_jobs_whose_priorities_are_all_1_are_lifted_where_a_site_allows_it() -> None:
    """A Slurm without weights; without leave nothing can be done, and little is tried."""
    order = [standing(3, 1), standing(2, 1), standing(1, 1)]
    lifted = carried_out(order, nices(order, NiceBounds(most=1000, least=-100)))
    assert in_order(lifted)
    assert min(one.priority for one in lifted) >= 1
    assert nices(order, NiceBounds(most=1000)) == {}


def test_who_gives_way_for_nobody_comes_back() -> None:
    """Those before it have started: its nice goes."""
    assert nices([standing(1, 500, 400)], NiceBounds(most=1000)) == {"1": 0}


@given(queues(), BOUNDS)
def test_nice_stays_within_the_bounds(order: list[WaitingJob], bounds: NiceBounds) -> None:
    """Whatever is written is, and no priority would be below 1."""
    for job, nice in nices(order, bounds).items():
        (one,) = [one for one in order if one.job == job]
        assert bounds.least <= nice <= bounds.most
        assert one.base - nice >= 1


@given(queues(), st.integers(1, 5000))
def test_nobody_is_preferred_to_who_takes_no_part(order: list[WaitingJob], most: int) -> None:
    """Unless a site allows to lift, no job is above its own priority."""
    after = carried_out(order, nices(order, NiceBounds(most=most)))
    assert all(one.nice >= 0 for one in after)


@given(queues(least=200, most=3000))
def test_the_order_is_reached_where_there_is_room(order: list[WaitingJob]) -> None:
    """All bounds far away: Slurm takes them as wanted."""
    after = carried_out(order, nices(order, NiceBounds(most=100_000)))
    assert in_order(after)


@given(queues(most=6), st.integers(0, 3))
def test_the_order_is_reached_by_lifting(order: list[WaitingJob], more: int) -> None:
    """However low priorities are, where a site gives leave."""
    after = carried_out(order, nices(order, NiceBounds(most=100_000, least=-1000 - more)))
    assert in_order(after)


@example([standing(1, 5), standing(2, 4)], NiceBounds(most=3))
@given(queues(), BOUNDS)
def test_what_stands_is_left_alone(order: list[WaitingJob], bounds: NiceBounds) -> None:
    """A second look finds nothing to do."""
    after = carried_out(order, nices(order, bounds))
    assert nices(after, bounds) == {}


@given(queues(least=300, most=3000), st.integers(1, 50))
def test_ageing_alone_changes_nothing(order: list[WaitingJob], points: int) -> None:
    """Priorities of all go up alike with time."""
    bounds = NiceBounds(most=100_000)
    after = carried_out(order, nices(order, bounds))
    older = [replace(one, priority=one.priority + points) for one in after]
    assert nices(older, bounds) == {}
