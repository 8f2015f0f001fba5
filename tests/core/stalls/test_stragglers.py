"""A rank that is always slow is its node; slowness that moves is the loader."""

from typing import Any

import pytest

from slurm_ext.core.stalls.stragglers import Straggling, stragglers, windows_of


def windows(slow: list[int | None], ranks: int = 4) -> list[dict[int, float]]:
    """A window for each item: the rank that takes a fifth longer, or none."""
    return [{rank: 1.2 if rank == who else 1.0 for rank in range(ranks)} for who in slow]


@pytest.mark.parametrize(
    ("slow", "kind", "rank"),
    [
        ([None] * 12, Straggling.NONE, None),
        ([2] * 12, Straggling.FIXED, 2),
        ([2] * 10 + [0, 1], Straggling.FIXED, 2),
        ([0, 1, 2, 3] * 3, Straggling.MOVING, None),
        ([0, 1, 1, 3, 2, 1, 0, 3], Straggling.MOVING, None),
        ([2, 2], Straggling.UNKNOWN, None),
        ([], Straggling.UNKNOWN, None),
        ([2] + [None] * 11, Straggling.NONE, None),
    ],
)
def test_the_kind_of_straggling(slow: list[int | None], kind: Straggling, rank: int | None) -> None:
    """By who is slowest in each window; few windows say nothing, a lone one is no pattern."""
    said = stragglers(windows(slow))
    assert (said.kind, said.rank) == (kind, rank)


def test_the_cost_is_a_share_of_a_step() -> None:
    """What the others wait, over all windows."""
    assert stragglers(windows([1, 1, 1, 1, None, None])).cost == pytest.approx(0.2 * 4 / 6)


def test_of_two_ranks_a_coin_is_no_hardware() -> None:
    """Six of ten is chance; ten of ten is not."""
    assert stragglers(windows([0, 1, 0, 1, 0, 0, 1, 0, 1, 0], 2)).kind is Straggling.MOVING
    assert stragglers(windows([1] * 10, 2)).kind is Straggling.FIXED


def summary(rank: int, exposed_s: list[float]) -> dict[str, Any]:
    """A rank's, whose steps take a second."""
    phases = [{"batches": 40, "step_s": 40.0}]
    timed = {"iterations": list(range(1, 1 + len(exposed_s))), "exposed_s": exposed_s}
    return {"rank": rank, "communication": timed, "loaders": [{"phases": phases}]}


def test_who_waits_least_computed_longest() -> None:
    """Iterations that every rank timed, by what each waited in them."""
    ranks = [summary(0, [0.3, 0.3, 0.3]), summary(1, [0.1, 0.1])]
    assert windows_of(ranks) == [{0: 0.7, 1: 0.9}] * 2
    assert windows_of([{"rank": 0, "communication": None, "loaders": []}]) == []
    assert windows_of([{"rank": 0}]) == []
