"""Terms of sharing, reasons against it and its weights: each threshold on it and beside it."""

from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from slurm_ext.core.errors import InputError
from slurm_ext.core.gpu_sharing import RelativeSpeed, SoloProfile, SpeedBasis
from slurm_ext.policy.colocation.terms import Candidate, SharingRules, check
from slurm_ext.policy.colocation.why_apart import (
    UNKNOWN_S,
    below,
    counted_on,
    floor_of,
    lacking,
    meets,
    saved_s,
    typical,
    unwilling,
    weight_of,
    went_badly,
    why_apart,
)

RULES = SharingRules()

GIB = 2.0**30


def job(name: str, **changes: Any) -> Candidate:
    """A job of ann's that agreed; its key is its name's first letter."""
    fields: dict[str, Any] = {"user": "ann", "opted_in": True, "remaining_s": 100.0, **changes}
    return Candidate(job=name, solo=fields.pop("solo", SoloProfile(key=name[0])), **fields)


def speed(low: float, mean: float | None = None, by: SpeedBasis = SpeedBasis.PAIR) -> RelativeSpeed:
    """A speed with this lower bound."""
    return RelativeSpeed(mean=low if mean is None else mean, low=low, high=1.0, evidence=by)


@pytest.mark.parametrize(
    ("changes", "rules", "why"),
    [
        ({}, {"floor": 0.0}, "floor = 0.0"),
        ({}, {"floor": 1.01}, "floor = 1.01"),
        ({}, {"most_together": 1}, "2 or more"),
        ({}, {"window": 1}, "2 or more"),
        ({"floor": 0.0}, {}, "floor = 0.0"),
        ({"floor": 1.01}, {}, "floor = 1.01"),
        ({"remaining_s": -1.0}, {}, "remaining_s = -1.0"),
        ({"remaining_s": inf}, {}, "remaining_s = inf"),
        ({"solo": SoloProfile(key="a", mem_bytes=-1.0)}, {}, "mem_bytes = -1.0"),
        ({"solo": SoloProfile(key="a", gpu_mem_bytes=nan)}, {}, "gpu_mem_bytes = nan"),
    ],
)
def test_what_cannot_be_meant(changes: dict[str, Any], rules: dict[str, Any], why: str) -> None:
    """Each is named."""
    with pytest.raises(InputError, match=why):
        check([job("a", **changes)], [], replace(RULES, **rules))


def test_the_bounds_themselves_are_sound() -> None:
    """A floor of 1, no time left, no memory, two together."""
    solo = SoloProfile(key="a", mem_bytes=0.0, gpu_mem_bytes=0.0)
    sound = job("a", floor=1.0, remaining_s=0.0, solo=solo)
    check([sound], [job("b", place="n1")], replace(RULES, floor=1.0, most_together=2, window=2))
    with pytest.raises(InputError, match="its place is not given"):
        check([], [job("b")], RULES)
    with pytest.raises(InputError, match="named twice"):
        check([sound], [replace(sound, place="n1")], RULES)


def test_the_floor_counts_on_it() -> None:
    """At the floor a job may share; a speed that is no number is below."""
    a, b = job("a"), job("b", floor=0.5)
    assert floor_of(a, RULES) == 0.85
    assert floor_of(b, RULES) == 0.5
    assert below([a, b], {"a": speed(0.85), "b": speed(0.5)}, RULES) is None
    assert "a may run at 84% " in (below([a], {"a": speed(0.8449)}, RULES) or "")
    assert "its floor is 50%" in (below([a, b], {"a": speed(1), "b": speed(0.49)}, RULES) or "")
    assert below([a], {"a": speed(nan)}, RULES) is not None


def test_the_speed_that_decides() -> None:
    """The lower bound where sharing is our doing; the mean where jobs meet anyway."""
    anyway = replace(RULES, anyway=True)
    assert counted_on(speed(0.5, 0.8), RULES) == 0.5
    assert counted_on(speed(0.5, 0.8), anyway) == 0.8
    assert counted_on(speed(0.5, 0.8, SpeedBasis.PRIOR), RULES) == 0.5
    assert counted_on(speed(0.5, 0.8, SpeedBasis.PRIOR), anyway) == 1.0


def test_reasons_in_their_order() -> None:
    """Consent, number, users, devices, past slowdowns, memory, the floor."""
    a, b = job("a"), job("b")
    fine = {"a": speed(1), "b": speed(1), "c": speed(1)}
    bad = replace(RULES, bad_pairs=frozenset({frozenset("ab")}))
    assert why_apart([a, b], fine, RULES) is None
    assert why_apart([a, replace(b, opted_in=False)], fine, RULES) == "b has not agreed to share"
    assert why_apart([a, b, job("c")], fine, RULES) == "more than 2 would be together"
    assert why_apart([a, b, job("c")], fine, replace(RULES, most_together=3)) is None
    assert why_apart([a, replace(b, user="bob")], fine, RULES) == "they are of different users"
    assert why_apart([a, replace(b, user="bob")], fine, replace(RULES, same_user=False)) is None
    assert why_apart([a, replace(b, device="gpu")], fine, RULES) == "they use different devices"
    assert why_apart([a, b], fine, bad) == "they were below the floor together lately"
    assert "its floor" in (why_apart([a, b], {"a": speed(0.1), "b": speed(1)}, RULES) or "")


def test_past_slowdowns_are_of_two_keys() -> None:
    """Any two of them count, runs of one key as well; others do not."""
    rules = replace(RULES, bad_pairs=frozenset({frozenset("ab"), frozenset("c")}))
    assert went_badly([job("x"), job("a"), job("b")], rules)
    assert went_badly([job("c1"), job("c2")], rules)
    assert went_badly([job("a"), job("c")], rules) is None
    assert went_badly([job("c")], rules) is None


def test_memory_fits_up_to_the_last_byte() -> None:
    """An unknown need does not fit; GPU memory counts on GPUs only."""
    big = job("a", solo=SoloProfile(key="a", mem_bytes=6 * GIB, gpu_mem_bytes=3 * GIB))
    other = job("b", solo=SoloProfile(key="b", mem_bytes=2 * GIB, gpu_mem_bytes=2 * GIB))
    assert lacking([big, other], replace(RULES, mem_bytes=8 * GIB)) is None
    assert lacking([big, other], replace(RULES, mem_bytes=8 * GIB - 1)) == (
        "8.0 GiB of memory are needed, 8.0 GiB are there"
    )
    assert "not known how much memory" in (lacking([job("a")], replace(RULES, mem_bytes=GIB)) or "")
    gpu = replace(RULES, gpu_mem_bytes=4 * GIB)
    assert lacking([big, other], gpu) is None
    on_gpu = [replace(big, device="A100"), replace(other, device="A100")]
    assert "5.0 GiB of GPU memory are needed, 4.0 GiB" in (lacking(on_gpu, gpu) or "")
    assert lacking(on_gpu, replace(gpu, gpu_mem_bytes=5 * GIB)) is None
    assert unwilling(replace(big, opted_in=False), RULES) == "a has not agreed to share"
    assert unwilling(big, replace(RULES, mem_bytes=5 * GIB)) is not None
    assert unwilling(big, RULES) is None


def test_who_could_meet() -> None:
    """Consent of the other, its device and its user."""
    a = job("a")
    assert meets(a, job("b"), RULES)
    assert not meets(a, job("b", opted_in=False), RULES)
    assert not meets(a, job("b", device="A100"), RULES)
    assert not meets(a, job("b", user="bob"), RULES)
    assert meets(a, job("b", user="bob"), replace(RULES, same_user=False))
    assert meets(replace(a, opted_in=False), job("b"), RULES)


def test_seconds_saved_by_a_pair() -> None:
    """At full speed the shorter one is free; at half speed nothing is gained."""
    assert saved_s([100.0, 100.0], [1.0, 1.0]) == 100.0
    assert saved_s([100.0, 40.0], [1.0, 1.0]) == 40.0
    assert saved_s([100.0, 100.0], [0.5, 0.5]) == 0.0
    assert saved_s([100.0, 100.0], [0.5, 0.25]) == -50.0
    assert saved_s([100.0, 50.0], [0.8, 0.5]) == pytest.approx(30.0)


def test_a_group_is_weighed_by_its_slowest_and_its_longest() -> None:
    """The lower bounds; the mean where only jobs in general are known."""
    newcomer, group = job("a", remaining_s=None), [job("b", remaining_s=50.0), job("c")]
    speeds = {"a": speed(0.8, 0.9), "b": speed(0.5), "c": speed(0.9)}
    assert weight_of([newcomer], group, speeds, 200.0) == saved_s([200.0, 100.0], [0.8, 0.5])
    speeds["a"] = speed(0.8, 0.9, SpeedBasis.PRIOR)
    assert weight_of([newcomer], group, speeds, 200.0) == saved_s([200.0, 100.0], [0.9, 0.5])


def test_the_typical_remaining_time() -> None:
    """The upper median of the known ones."""
    assert typical([]) == UNKNOWN_S
    assert typical([job("a", remaining_s=None)]) == UNKNOWN_S
    assert typical([job("a", remaining_s=9.0), job("b", remaining_s=1.0)]) == 9.0
    assert (
        typical([job(n, remaining_s=r) for n, r in zip("abc", (9.0, 1.0, 5.0), strict=True)]) == 5
    )
