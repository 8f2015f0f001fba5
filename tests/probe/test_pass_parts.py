"""A pass's totals, apart by whether lent workers were at work."""

from typing import Any

from slurm_ext.probe.lending.pass_parts import PassParts
from slurm_ext.probe.stalls.fetch_times import FetchTimes


def totals(batches: int, wall_s: float, fetches: int) -> dict[str, Any]:
    """Of a pass so far."""
    times = FetchTimes()
    times.add(0.01, fetches)
    return {"epochs": 1, "batches": batches, "wall_s": wall_s, "fetch_times": times}


def rows(parts: PassParts, now: dict[str, Any]) -> dict[bool, tuple[Any, ...]]:
    """Sums of each part."""
    return {
        lent: (one["epochs"], one["batches"], one["wall_s"], one["lent_s"])
        for lent, one in parts.all(now).items()
    }


def test_a_pass_without_a_loan_is_one_part() -> None:
    """Also before its first batch."""
    parts = PassParts()
    assert rows(parts, totals(0, 0.0, 0)) == {False: (1, 0, 0.0, 0.0)}
    parts.turn(False, lambda: totals(9, 1.0, 9))
    assert rows(parts, totals(10, 2.0, 12)) == {False: (1, 10, 2.0, 0.0)}


def test_each_stretch_counts_where_it_belongs() -> None:
    """Own, lent, own again, lent again: sums of each, and both together are the whole."""
    parts = PassParts()
    parts.turn(True, lambda: totals(10, 2.0, 11))
    parts.turn(False, lambda: totals(30, 3.0, 33))
    parts.turn(True, lambda: totals(40, 5.0, 44))
    found = parts.all(totals(60, 6.0, 70))
    assert rows(parts, totals(60, 6.0, 70)) == {False: (1, 20, 4.0, 0.0), True: (0, 40, 2.0, 2.0)}
    assert [sum(found[lent]["fetch_times"].counts) for lent in (False, True)] == [22, 48]


def test_a_loan_from_the_first_batch_on_leaves_no_part_of_its_own() -> None:
    """Nothing was made without it: the epoch belongs to it."""
    parts = PassParts()
    parts.turn(True, lambda: totals(0, 0.0, 0) | {"epochs": 0})
    assert rows(parts, totals(5, 1.0, 6)) == {True: (1, 5, 1.0, 1.0)}
