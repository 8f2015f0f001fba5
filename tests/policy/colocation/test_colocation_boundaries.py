"""Boundaries of sharing: each threshold on it and beside it, and whose value counts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from slurm_ext.core.errors import InputError
from slurm_ext.core.gpu_sharing import RelativeSpeed, SoloProfile, SpeedBasis
from slurm_ext.policy.colocation.candidates import at_stake
from slurm_ext.policy.colocation.choose_pairs import fit_to_share, pairs, why_not
from slurm_ext.policy.colocation.co_scheduling import place_waiting, rooms
from slurm_ext.policy.colocation.colocation_monitor import (
    KEEP_MOST_S,
    KEEP_S,
    CoLocation,
    CoLocationState,
    PairCooldown,
    Window,
    cooldowns_as_json,
    cooldowns_from_json,
    update,
)
from slurm_ext.policy.colocation.placement_round import NodeSlot, PlacementAction
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


class Table:
    """Speeds by key and key beside; every other one is `usual`."""

    def __init__(
        self, table: Mapping[str, float] | None = None, usual: float = 1.0, prior: str = ""
    ) -> None:
        self.table, self.usual, self.prior = table or {}, usual, prior

    def speed(
        self, job: SoloProfile, beside: Sequence[SoloProfile], device: str = "cpu"
    ) -> RelativeSpeed:
        """The slowest beside any of them; of the kind `prior` nothing is known."""
        keys = [job.key + other.key for other in beside]
        low = min((self.table.get(key, self.usual) for key in keys), default=1.0)
        known = not any(self.prior and self.prior in key for key in keys)
        return speed(low, by=SpeedBasis.PAIR if known else SpeedBasis.PRIOR)


# -- terms -------------------------------------------------------------------------------------


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


# -- why apart ---------------------------------------------------------------------------------


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


# -- weights -----------------------------------------------------------------------------------


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


# -- pairs -------------------------------------------------------------------------------------


def test_the_best_pairs_first() -> None:
    """By the time that they save; each job in one pair; a place takes one more."""
    waiting = [job("a", remaining_s=400.0), job("b", remaining_s=400.0), job("c"), job("d")]
    found = pairs(waiting, [], Table(), rules=RULES)
    assert [pair.jobs for pair in found] == [("a", "b"), ("c", "d")]
    assert [pair.weight for pair in found] == [400.0, 100.0]
    assert found[0].reason == (
        "a at least 100%, b at least 100% of their speed alone; 400 s earlier than one after"
        " the other"
    )
    (joined,) = pairs(waiting[:2], [job("r", place="n1", remaining_s=900.0)], Table(), rules=RULES)
    assert (joined.place, joined.worst) in (("n1", 1.0), (None, 1.0))
    running = [job("r", place="n1", remaining_s=900.0), job("s", place="n2", remaining_s=900.0)]
    both = pairs(waiting[:2], running, Table(), rules=RULES)
    assert sorted(pair.place or "" for pair in both) == ["n1", "n2"]


def test_a_pair_that_saves_nothing_is_none() -> None:
    """Nor one that has no room, nor one beside a full group."""
    low = replace(RULES, floor=0.1)
    assert pairs([job("a"), job("b")], [], Table(usual=0.5), rules=low) == ()
    assert len(pairs([job("a"), job("b")], [], Table(usual=0.51), rules=low)) == 1
    nowhere = pairs([job("a"), job("b")], [], Table(), rules=RULES, fits=lambda *_: False)
    assert nowhere == ()
    group = [job("r", place="n1"), job("s", place="n1")]
    assert pairs([job("a")], group, Table(), rules=RULES) == ()
    three = replace(RULES, most_together=3)
    assert len(pairs([job("a")], group, Table(), rules=three)) == 1


def test_room_is_asked_for_the_newcomers_alone() -> None:
    """For both where both wait, for the one that comes where others run."""
    calls: list[tuple[list[str], str | None]] = []

    def fits(newcomers: Sequence[Candidate], place: str | None) -> bool:
        calls.append(([candidate.job for candidate in newcomers], place))
        return True

    pairs([job("b"), job("a")], [job("r", place="n1")], Table(), rules=RULES, fits=fits)
    assert sorted(calls, key=str) == sorted(
        [(["a", "b"], None), (["a"], "n1"), (["b"], "n1")], key=str
    )


def test_equal_pairs_go_to_those_that_came_first() -> None:
    """By rank, then by name."""
    late = [job("a", rank=3.0), job("b", rank=2.0), job("c", rank=1.0)]
    assert pairs(late, [], Table(), rules=RULES)[0].jobs == ("b", "c")
    assert pairs([replace(c, rank=0.0) for c in late], [], Table(), rules=RULES)[0].jobs == (
        "a",
        "b",
    )


def test_jobs_beyond_the_window_are_matched_among_themselves() -> None:
    """A place that was taken is not offered again."""
    rules = replace(RULES, window=2)
    waiting = [job(name, rank=float(at)) for at, name in enumerate("abcd")]
    bad = Table({"ab": 0.1, "ba": 0.1, "cd": 0.1, "dc": 0.1})
    assert pairs(waiting, [], bad, rules=rules) == ()
    assert len(pairs(waiting, [], bad, rules=replace(rules, window=4))) == 2
    (one,) = pairs(waiting, [job("r", place="n1")], bad, rules=rules)
    assert one.jobs in (("a", "r"), ("b", "r"))


def test_whoever_shares_with_anybody_may_share_with_all() -> None:
    """The worst of those that it may meet decides; its twin where there is nobody."""
    a, table = job("a"), Table({"ab": 0.9, "ac": 0.88, "aa": 0.86})
    good = fit_to_share(a, [job("b"), job("c")], table, RULES)
    assert (good.share, good.worst, good.beside) == (True, 0.88, "c")
    assert good.reason == f"at least 88% of its speed alone, {SpeedBasis.PAIR.value}"
    twin = fit_to_share(a, [job("x", user="bob")], table, RULES)
    assert (twin.share, twin.worst, twin.beside) == (True, 0.86, "a")
    assert fit_to_share(a, [a], table, RULES).beside == "a"
    hurt = fit_to_share(a, [job("b"), job("d")], Table({"da": 0.5}), RULES)
    assert (hurt.share, hurt.beside) == (False, "d")
    assert "d may run at 50%" in hurt.reason
    refused = fit_to_share(replace(a, opted_in=False), [job("b")], table, RULES)
    assert (refused.share, refused.worst, refused.beside) == (False, None, None)
    late = fit_to_share(a, [job("b")], table, RULES, in_time=lambda: False)
    assert (late.share, late.reason[:17]) == (False, "there was no time")
    unknown = fit_to_share(a, [job("b")], Table({"ab": nan}), RULES)
    assert (unknown.share, unknown.worst) == (False, None)
    slow_twin = fit_to_share(a, [], Table({"aa": 0.5}), RULES)
    assert "a may run at 50%" in slow_twin.reason
    bad = replace(RULES, bad_pairs=frozenset({frozenset("a")}))
    assert "below the floor together lately" in fit_to_share(a, [], Table(), bad).reason


# -- candidates --------------------------------------------------------------------------------


def test_only_known_jobs_are_held_back_and_only_if_one_is_hurt() -> None:
    """From 95 % of its speed alone on nobody is hurt, or from its floor on where that is higher."""
    a, b = job("a"), job("b")
    anyway = replace(RULES, anyway=True)
    assert at_stake([a], [b], Table(usual=0.95), anyway) == frozenset()
    assert at_stake([a], [b], Table(usual=0.949), anyway) == {"a"}
    strict = replace(a, floor=0.97)
    assert at_stake([strict], [b], Table(usual=0.96), anyway) == {"a"}
    assert at_stake([strict], [b], Table(usual=0.97), anyway) == frozenset()
    assert at_stake([a, b], [], Table({"ba": 0.5}), anyway) == {"a", "b"}
    assert at_stake([a], [], Table(usual=0.5), anyway) == frozenset()
    assert at_stake([a], [b], Table(usual=0.5, prior="b"), anyway) == frozenset()
    apart = replace(anyway, bad_pairs=frozenset({frozenset("ab")}))
    assert at_stake([a], [b], Table(prior="b"), apart) == {"a"}


# -- rounds ------------------------------------------------------------------------------------


def placed(
    waiting: Sequence[Candidate],
    running: Sequence[Candidate],
    nodes: Mapping[str, int],
    table: Table,
    **more: Any,
) -> dict[str, PlacementAction]:
    """The action for each waiting job."""
    slots = [NodeSlot(name=name, free_cpus=free) for name, free in nodes.items()]
    actions = place_waiting(waiting, running, slots, table, rules=RULES, **more)
    return {action.job: action for action in actions}


BAD = Table({"dd": 0.4})


def test_room_is_what_jobs_leave() -> None:
    """Jobs of other nodes do not count; a node that is over full has no room."""
    slots = {slot.name: slot.free_cpus for slot in rooms({"n1": 4, "n2": 2}, [("n1", 3), ("x", 9)])}
    assert slots == {"n1": 1, "n2": 2}


def test_a_job_starts_where_its_cpus_just_fit() -> None:
    """One more does not fit, and the reason says so."""
    fits = placed([job("d1", cpus=2), job("e", cpus=1)], [], {"n1": 2}, BAD)
    assert (fits["d1"].start, fits["d1"].place) == (True, "n1") or fits["d1"].free
    two = placed([job("d1", cpus=2), job("d2", cpus=2, rank=1.0)], [], {"n1": 2}, BAD)
    assert (two["d1"].place, two["d1"].reason) == ("n1", "a node to itself")
    assert (two["d2"].start, two["d2"].room, two["d2"].free) == (False, False, False)
    assert two["d2"].reason == "no node has room"
    wide = placed([job("d1", cpus=2), job("d2", cpus=2, rank=1.0)], [], {"n1": 3}, BAD)
    assert wide["d2"].reason == "no node has room"
    room = placed([job("d1", cpus=2), job("d2", cpus=1, rank=1.0)], [], {"n1": 3}, BAD)
    assert (room["d2"].start, room["d2"].room) == (False, True)
    assert "its floor is 85%" in room["d2"].reason


def test_an_overdue_job_is_left_to_slurm() -> None:
    """Whatever is beside it."""
    running = [job("d0", place="n1")]
    waits = placed([job("d1")], running, {"n1": 1}, BAD)
    assert not waits["d1"].free
    free = placed([job("d1")], running, {"n1": 1}, BAD, overdue=frozenset({"d1"}))
    assert (free["d1"].free, free["d1"].start, free["d1"].place) == (True, True, None)
    assert free["d1"].reason == "has waited long enough"


def test_a_job_that_was_bound_starts_where_it_was_bound() -> None:
    """While it has room there, and nobody there would be hurt."""
    running = [job("d0", place="n1"), job("e", place="n2")]
    table = Table({"dd": 0.4, "df": 0.9})
    bound = {"f": "n2", "d1": "n1"}
    actions = placed([job("d1"), job("f")], running, {"n1": 1, "n2": 1}, table, bound=bound)
    assert (actions["f"].place, actions["f"].reason) == ("n2", "its turn has come")
    assert actions["d1"].place == "n2" or not actions["d1"].start
    full = placed([job("f", cpus=2)], running, {"n1": 0, "n2": 1}, BAD, bound={"f": "n2"})
    assert full["f"].reason != "its turn has come"


def test_the_next_job_is_released_for_the_node_that_is_free_first() -> None:
    """Only where it may run beside all that may still be there."""
    running = [
        job("e1", place="n1", remaining_s=10.0),
        job("d0", place="n2", remaining_s=90.0),
        job("d9", place="n2", remaining_s=95.0),
    ]
    table = Table({"dd": 0.4})
    actions = placed([job("d1"), job("d2", rank=1.0)], running, {"n1": 0, "n2": 0}, table)
    assert (actions["d1"].place, actions["d1"].free, actions["d1"].start) == ("n1", True, False)
    assert actions["d1"].reason.startswith("next there: ")
    assert not actions["d2"].free
    coming = placed([job("d1")], running, {"n1": 0, "n2": 0}, table, coming=frozenset({"e1"}))
    assert not coming["d1"].free


def test_nothing_keeps_a_job_from_an_empty_node() -> None:
    """Beside others the first reason counts."""
    assert why_not(job("d1"), [], BAD, RULES) is None
    assert "its floor" in (why_not(job("d1"), [job("d2", place="n1")], BAD, RULES) or "")


# -- monitor -----------------------------------------------------------------------------------

FRESH = CoLocation(job="a", floor=0.8, requested_mem_bytes=100.0, patience_s=30.0)


def after(*windows: tuple[float, float | None]) -> CoLocation:
    """The job after windows of (seconds, speed)."""
    colocation = FRESH
    for seconds, measured in windows:
        colocation = update(colocation, Window(seconds=seconds, speed=measured))
    return colocation


def test_below_means_below() -> None:
    """At the floor nothing adds up; within the margin nothing is taken away; above it is."""
    assert after((10, 0.8)).below_s == 0
    assert after((10, 0.799)).below_s == 10
    assert after((10, 0.7), (5, 0.829)).below_s == 10
    assert after((10, 0.7), (5, 0.831)).below_s == 5
    assert (after((10, 0.7), (10, 0.9)).below_s, after((10, 0.7), (10, 0.9)).windows_below) == (
        0,
        0,
    )
    assert (after((10, 0.7), (4, 0.9)).windows_below, after((10, 0.7), (40, 0.9)).below_s) == (1, 0)


def test_patience_and_three_windows() -> None:
    """Both on the bound; speed 0 is a speed, a negative one is none."""
    assert after((10, 0.5), (10, 0.5), (10, 0.5)).state is CoLocationState.BELOW
    assert after((10, 0.5), (10, 0.5), (9.9, 0.5)).state is CoLocationState.FINE
    assert after((100, 0.5), (100, 0.5)).state is CoLocationState.FINE
    assert after((10, 0.0)).below_s == 10
    assert after((10, -0.1), (10, None), (10, nan), (0, 0.5), (-1, 0.5), (inf, 0.5)) == FRESH


def test_memory_beyond_what_was_requested() -> None:
    """Ten percent more are forgiven; unmeasured memory changes nothing."""
    for mem_bytes, state in (
        (110.0, CoLocationState.FINE),
        (110.1, CoLocationState.MEMORY_EXCEEDED),
    ):
        held = update(FRESH, Window(seconds=1, mem_bytes=mem_bytes))
        assert held.state is state or mem_bytes == 110.0
        assert update(held, Window(seconds=1, mem_bytes=1.0)).most_mem_bytes == mem_bytes
    assert update(FRESH, Window(seconds=1, mem_bytes=inf)).most_mem_bytes == 0.0


def test_cooldowns_double_up_to_a_quarter_of_a_year() -> None:
    """Each ends on the second; JSON keeps them."""
    for times, days in ((1, 7), (2, 14), (3, 28), (4, 56), (5, 90), (9, 90)):
        cooldown = PairCooldown(last_s=1000.0, times=times)
        assert cooldown.holds(1000.0 + days * 86400 - 1)
        assert not cooldown.holds(1000.0 + days * 86400)
    assert (KEEP_S, KEEP_MOST_S) == (7 * 86400, 90 * 86400)
    kept = {frozenset("ab"): PairCooldown(5.0, 2), frozenset("c"): PairCooldown(1.0)}
    rows = cooldowns_as_json(kept)
    assert rows == [[["a", "b"], 5.0, 2], [["c"], 1.0, 1]]
    assert cooldowns_from_json(rows) == kept
