"""GPUs are divided as well as can be, and never more than there are."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.core.errors import InputError
from slurm_ext.policy.elastic.gpu_division import (
    DivisionTerms,
    Utility,
    admitted,
    allot,
    divide,
    only,
    sizes_of,
    utilities,
)

NEVER = float("-inf")


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray, tuple[int, ...], int]:
    """Utilities of up to four jobs at any sizes, 0 among them or not, and up to eight GPUs."""
    sizes = tuple(sorted(draw(st.sets(st.integers(0, 9), min_size=1, max_size=5))))
    cells = st.one_of(st.floats(-100, 100), st.just(NEVER))
    row = st.lists(cells, min_size=len(sizes), max_size=len(sizes))
    rows = draw(st.lists(row, min_size=1, max_size=4))
    return np.array(rows), sizes, draw(st.integers(1, 8))


def brute_force(utility: np.ndarray, sizes: tuple[int, ...], gpus: int) -> float:
    """The best of all divisions; -inf where there is none."""
    columns = product(range(len(sizes)), repeat=len(utility))
    sums = (
        sum(utility[job, column] for job, column in enumerate(chosen))
        for chosen in columns
        if sum(sizes[column] for column in chosen) <= gpus
    )
    return max(sums, default=NEVER)


@given(tables())
def test_the_division_is_the_best_of_all(table: tuple[np.ndarray, tuple[int, ...], int]) -> None:
    """Whatever the utilities: as good as trying everything, and it fits."""
    utility, sizes, gpus = table
    best = brute_force(utility, sizes, gpus)
    if best == NEVER:
        with pytest.raises(InputError, match="too few"):
            divide(utility, sizes, gpus)
        return
    columns = divide(utility, sizes, gpus)
    assert sum(sizes[column] for column in columns) <= gpus
    found = sum(utility[job, column] for job, column in enumerate(columns))
    assert found == pytest.approx(best, rel=1e-9, abs=1e-6)


@st.composite
def crowds(draw: st.DrawFn) -> tuple[list[Utility], tuple[int, ...], int]:
    """Jobs with any goodput, held sizes and bounds."""
    per_node = draw(st.sampled_from([1, 2, 4, 6, 8]))
    gpus = per_node * draw(st.integers(1, 5))
    sizes = sizes_of(gpus, per_node, gpus)
    wishes = []
    for number in range(draw(st.integers(0, 12))):
        cell = st.one_of(st.just(0.0), st.floats(1e-6, 1e6))
        rates = draw(st.lists(cell, min_size=len(sizes), max_size=len(sizes)))
        wish = Utility(
            name=f"{number}",
            goodput=np.array(rates),
            held=draw(st.sampled_from([0, *sizes])),
            left=draw(st.floats(0, 1e6)),
            arrival_s=float(number),
        )
        least, most = sorted((draw(st.integers(1, gpus)), draw(st.integers(1, gpus))))
        wishes.append(only(wish, sizes, least, most))
    return wishes, sizes, gpus


TERMS = st.builds(
    DivisionTerms,
    gpus_a_job=st.sampled_from([0.0, 1.0, 2.0, 3.5]),
    favour=st.sampled_from([0.0, 1.5]),
    adds_up=st.booleans(),
)


@given(crowds(), TERMS)
def test_nobody_gets_what_is_not_there_or_not_wanted(
    crowd: tuple[list[Utility], tuple[int, ...], int], terms: DivisionTerms
) -> None:
    """All sizes together fit, and each is one that its job can have, in its owner's bounds."""
    wishes, sizes, gpus = crowd
    given_out = allot(wishes, sizes, gpus, terms)
    assert sum(given_out.values()) <= gpus
    by = {wish.name: wish for wish in wishes}
    for name, size in given_out.items():
        assert by[name].goodput[sizes.index(size)] > 0
    able = [wish for wish in wishes if (wish.goodput > 0).any()]
    assert bool(given_out) == any(
        sizes[int(np.flatnonzero(wish.goodput > 0)[0])] <= gpus for wish in able
    )


SIZES = sizes_of(16, 4, 16)


def a_job(name: str, power: float = 0.7, **more: float) -> Utility:
    """Speedup is a power of GPUs."""
    goodput = np.array(SIZES, dtype=float) ** power
    return Utility(
        name=name, goodput=goodput, held=int(more.pop("held", 0)), left=more.pop("left", 1e6)
    )


def test_sizes_always_find_a_place() -> None:
    """Parts that divide a node, then whole nodes."""
    assert sizes_of(16, 4, 64) == (1, 2, 4, 8, 12, 16)
    assert sizes_of(16, 4, 8) == (1, 2, 4, 8)
    assert sizes_of(12, 6, 12) == (1, 2, 6, 12)
    assert sizes_of(2, 8, 8) == (1, 2)
    assert sizes_of(3, 1, 8) == (1, 2, 3)
    with pytest.raises(InputError):
        sizes_of(0, 4, 8)


def test_the_short_are_admitted_first_and_the_unknown_before_them() -> None:
    """Two GPUs a job: half as many jobs as GPUs; work 0 is a job that has measured nothing."""
    crowd = [a_job(str(left), left=float(left)) for left in (50, 0, 10, 40, 20, 30)]
    kept = admitted(crowd, SIZES, 8, DivisionTerms(gpus_a_job=2.0))
    assert [wish.name for wish in kept] == ["0", "10", "20", "30"]


def test_a_change_must_pay_its_restart() -> None:
    """A little more speed is not worth a restart; a lot is; and a job at its end stays."""
    terms = DivisionTerms(restart_s=30.0, lasts_s=300.0)
    hardly, well = a_job("hardly", power=0.1, held=4), a_job("well", power=0.9, held=4)
    assert allot([hardly], SIZES, 8, terms) == {"hardly": 4}
    assert allot([well], SIZES, 8, terms) == {"well": 8}
    ending = a_job("ending", power=0.9, held=4, left=4**0.9 * 20)
    assert allot([ending], SIZES, 8, terms) == {"ending": 4}


def test_a_short_job_gets_more_than_a_long_one() -> None:
    """Where both scale alike; with favour 0 they are alike."""
    crowd = [a_job("long", left=1e6), a_job("short", left=1e4)]
    given_out = allot(crowd, SIZES, 16, DivisionTerms())
    assert given_out["short"] > given_out["long"]
    assert set(allot(crowd, SIZES, 16, DivisionTerms(favour=0.0)).values()) == {8}


def test_the_sum_of_speedups_starves_who_scales_badly() -> None:
    """The published objective, kept for comparison: all to one, the least to the other."""
    crowd = [a_job("well", power=1.0), a_job("badly", power=0.2)]
    assert allot(crowd, SIZES, 16, DivisionTerms(adds_up=True)) == {"well": 12, "badly": 4}
    assert utilities([], SIZES, DivisionTerms()).shape == (0, len(SIZES))
