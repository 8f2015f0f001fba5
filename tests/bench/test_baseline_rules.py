"""The rules that the allocator is compared with are those that people use."""

from contrib.bench.allocator.baselines import (
    even_split,
    greedy,
    lightning,
    pytorch,
    rates,
    submitit,
    synergy_tune,
)

FLAT = {1: 10.0, 2: 10.0, 3: 10.0, 4: 10.0}
STEEP = {1: 3.0, 2: 6.6, 3: 10.0, 4: 12.5, 5: 15.3}
STEP = {1: 10.0, 2: 10.0, 3: 10.0, 4: 30.0}


def test_rules_of_thumb() -> None:
    """Everybody has the same cores; the workers are what each rule says for 8 CPUs and 4 jobs."""
    assert even_split(4, 8.0, 8) == [(2.0, 2)] * 4
    assert pytorch(4, 8.0, 8) == [(2.0, 8)] * 4
    assert lightning(4, 8.0, 8) == [(2.0, 7)] * 4
    assert lightning(1, 8.0, 8, processes=4) == [(8.0, 1)]
    assert submitit(4, 8.0) == [(2.0, 10)] * 4
    assert submitit(1, 64.0) == [(10, 10)]


def test_rules_of_thumb_never_leave_a_loader_without_workers() -> None:
    """On a node with fewer CPUs than jobs as well."""
    assert even_split(4, 2.0, 2) == [(0.5, 1)] * 4
    assert lightning(4, 1.0, 1) == [(0.25, 1)] * 4


def test_tune_cuts_the_greedy_back_to_their_share() -> None:
    """What a late job needs comes from whoever has more than his share, and from nobody else."""
    assert synergy_tune([STEEP, FLAT], 6, 3) == [5, 1]
    assert synergy_tune([STEEP, STEEP], 6, 3) == [3, 3]
    assert synergy_tune([FLAT, FLAT], 6, 3) == [1, 1]


def test_greedy_keeps_shares_and_is_trapped_by_a_plateau() -> None:
    """It never sees what lies behind a unit that brings nothing."""
    assert greedy([STEEP, FLAT], 6, 3) == [5, 1]
    assert greedy([STEP, FLAT], 6, 3) == [1, 1]
    assert greedy([], 6, 3) == []


def test_between_two_points_of_a_curve_the_lower_one_counts() -> None:
    """Nothing is made up, and below the first point there is nothing."""
    assert rates([{2: 5.0, 4: 9.0}] * 3, [1, 3, 9]) == [0.0, 5.0, 9.0]
