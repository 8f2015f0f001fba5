"""Rounds of placement and the monitor, step by step: who starts where, with which words."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from slurm_ext.core.errors import InputError
from slurm_ext.core.gpu_sharing import RelativeSpeed, SoloProfile, SpeedBasis
from slurm_ext.policy.colocation import colocation_monitor as monitor
from slurm_ext.policy.colocation.choose_pairs import (
    EARLIER,
    NO_TIME,
    PredictionCache,
    fit_to_share,
    pairs,
    why_not,
)
from slurm_ext.policy.colocation.colocation_monitor import (
    CoLocation,
    CoLocationState,
    PairCooldown,
    Window,
    add_cooldown,
    kept_apart,
    update,
)
from slurm_ext.policy.colocation.matching import best_matching
from slurm_ext.policy.colocation.placement_round import NodeSlot, PlacementAction, PlacementRound
from slurm_ext.policy.colocation.terms import FLOOR, WINDOW, Candidate, Pair, SharingRules, check

RULES = SharingRules()


def job(name: str, **changes: Any) -> Candidate:
    """A job of ann's that agreed; its key is its name's first letter."""
    fields: dict[str, Any] = {"user": "ann", "opted_in": True, "remaining_s": 100.0, **changes}
    return Candidate(job=name, solo=fields.pop("solo", SoloProfile(key=name[0])), **fields)


class Table:
    """Lower bounds by key and key beside; counts the questions."""

    def __init__(self, lows: Mapping[str, float] | None = None, usual: float = 1.0) -> None:
        self.lows, self.usual = lows or {}, usual
        self.asked: list[tuple[str, list[str], str]] = []

    def speed(
        self, job: SoloProfile, beside: Sequence[SoloProfile], device: str = "cpu"
    ) -> RelativeSpeed:
        """The slowest beside any of them."""
        self.asked.append((job.key, [other.key for other in beside], device))
        low = min((self.lows.get(job.key + o.key, self.usual) for o in beside), default=1.0)
        return RelativeSpeed(mean=low, low=low, high=1.0, evidence=SpeedBasis.PAIR)


# -- terms -------------------------------------------------------------------------------------


def test_the_usual_rules() -> None:
    """Figures of README rest on them."""
    assert (FLOOR, WINDOW, EARLIER) == (0.85, 32, 1e-3)
    assert SharingRules() == SharingRules(
        floor=0.85,
        same_user=True,
        mem_bytes=None,
        gpu_mem_bytes=None,
        bad_pairs=frozenset(),
        most_together=2,
        anyway=False,
        window=32,
    )
    bare = Candidate(job="a", solo=SoloProfile(key="a"), user="ann")
    assert (bare.account, bare.remaining_s, bare.floor, bare.opted_in) == (None, None, None, False)
    assert (bare.device, bare.place, bare.rank, bare.cpus) == ("cpu", None, 0.0, 1)


@pytest.mark.parametrize(
    ("candidates", "running", "rules", "message"),
    [
        ([], [], {"floor": 0.0}, "sharing: floor = 0.0: expected above 0, at most 1"),
        ([], [], {"window": 1}, "sharing: most_together and window have to be 2 or more"),
        ([job("a"), job("a")], [], {}, "job a: named twice among those that may share"),
        ([], [job("a")], {}, "job a: runs, but its place is not given"),
        ([job("a", floor=2.0)], [], {}, "job a: floor = 2.0: expected above 0, at most 1"),
        ([job("a", remaining_s=nan)], [], {}, "job a: remaining_s = nan: expected 0 or more"),
        (
            [job("a", solo=SoloProfile(key="a", mem_bytes=-1.0))],
            [],
            {},
            "job a: mem_bytes = -1.0: expected 0 or more",
        ),
        (
            [],
            [job("a", place="n1", solo=SoloProfile(key="a", gpu_mem_bytes=inf))],
            {},
            "job a: gpu_mem_bytes = inf: expected 0 or more",
        ),
    ],
)
def test_messages_of_what_cannot_be_meant(
    candidates: list[Candidate], running: list[Candidate], rules: dict[str, Any], message: str
) -> None:
    """Whole, for whoever reads them; jobs that run are looked at as well."""
    with pytest.raises(InputError) as raised:
        check(candidates, running, replace(RULES, **rules))
    assert str(raised.value) == message


def test_the_worst_of_a_pair_is_its_lowest_bound() -> None:
    """Not the mean, and not the first."""
    found = pairs([job("a"), job("b")], [], Table({"ab": 0.9, "ba": 0.87}), rules=RULES)
    assert (found[0].worst, found[0].place) == (0.87, None)
    assert {name: speed.low for name, speed in found[0].speeds.items()} == {"a": 0.9, "b": 0.87}


# -- pairs -------------------------------------------------------------------------------------


def test_an_earlier_job_is_worth_a_thousandth() -> None:
    """A place in the queue against time that is saved."""
    waiting = [job("a"), job("b"), job("c", rank=1.0, remaining_s=100.05)]
    assert pairs(waiting, [], Table(), rules=RULES)[0].jobs == ("a", "b")
    hardly = [job("a"), job("b", remaining_s=99.95), job("c", rank=1.0)]
    assert pairs(hardly, [], Table(), rules=RULES)[0].jobs == ("a", "b")
    clearly = [job("a"), job("b", remaining_s=99.85), job("c", rank=1.0)]
    assert pairs(clearly, [], Table(), rules=RULES)[0].jobs == ("a", "c")


def test_equal_weights_are_listed_by_name() -> None:
    """The most valuable first."""
    waiting = [
        job("d", rank=0.0),
        job("c", rank=1.0),
        job("b", rank=2.0),
        job("a", rank=3.0),
        job("y", rank=4.0, remaining_s=500.0),
        job("z", rank=5.0, remaining_s=500.0),
    ]
    fine = {x + y: 1.0 for x, y in ("dc", "cd", "ba", "ab", "yz", "zy")}
    found = pairs(waiting, [], Table(fine, usual=0.1), rules=RULES)
    assert [pair.jobs for pair in found] == [("y", "z"), ("a", "b"), ("c", "d")]


def test_jobs_that_run_together_are_one_end() -> None:
    """Each place takes one more, and all that are there have to bear it."""
    three = replace(RULES, most_together=3)
    running = [job("r", place="n1"), job("s", place="n1"), job("t", place="n2")]
    (first,) = pairs([job("a")], running, Table({"sa": 0.1}), rules=three)
    assert (first.jobs, first.place) == (("a", "t"), "n2")
    both = pairs([job("a"), job("b"), job("c")], running, Table({"ab": 0.1}), rules=three)
    assert len({pair.place for pair in both if pair.place}) == len(
        [pair for pair in both if pair.place]
    )
    assert pairs([job("a")], running[:2], Table(), rules=replace(RULES, most_together=2)) == ()


def test_nothing_is_matched_of_nothing() -> None:
    """And edges come back as they were named."""
    assert best_matching({}) == ()
    assert best_matching({("b", "a"): 1.0, ("c", "b"): 3.0, ("c", "d"): 3.5}) == (
        ("b", "a"),
        ("c", "d"),
    )


def test_each_speed_is_predicted_once() -> None:
    """By device, key and keys beside in any order; a job without a key is like no other."""
    table = Table()
    cache = PredictionCache(table)
    a, b, c = job("a1"), job("b1"), job("c1")
    cache.speed(a, [b, c])
    cache.speed(job("a2"), [job("c2"), job("b2")])
    assert table.asked == [("a", ["b", "c"], "cpu")]
    cache.speed(replace(a, device="A100"), [b, c])
    assert table.asked[1:] == [("a", ["b", "c"], "A100")]
    empty = SoloProfile(key="")
    cache.speed(job("x", solo=empty), [a])
    cache.speed(job("y", solo=empty), [a])
    assert len(table.asked) == 4
    twin = cache.speeds([a, replace(a, job="a9")])
    assert sorted(twin) == ["a1", "a9"]
    assert table.asked[4:] == [("a", ["a"], "cpu")]


def test_a_verdict_without_time_or_with_the_first_refusal() -> None:
    """Time is asked for before each one; the first that must not meet it decides."""
    assert NO_TIME == "there was no time to predict it beside all that it may meet"
    left = [True, False]
    table = Table()
    late = fit_to_share(job("a"), [job("b"), job("c")], table, RULES, in_time=lambda: left.pop(0))
    assert (late.share, late.worst, late.beside, late.reason) == (False, None, None, NO_TIME)
    assert {key for key, _, _ in table.asked} == {"a", "b"}
    table = Table({"ab": 0.2, "ac": 0.1})
    refused = fit_to_share(job("a"), [job("b"), job("c")], table, RULES)
    assert (refused.share, refused.worst, refused.beside) == (False, 0.2, "b")
    assert refused.reason == "a may run at 20% of its speed alone, its floor is 85%"
    unwilling = fit_to_share(job("a", opted_in=False), [], table, RULES)
    assert unwilling.reason == "a has not agreed to share"


# -- rounds ------------------------------------------------------------------------------------


def a_round(
    waiting: Sequence[Candidate],
    running: Sequence[Candidate],
    nodes: Mapping[str, int],
    table: Table | None = None,
) -> PlacementRound:
    """A round that has not begun."""
    slots = [NodeSlot(name=name, free_cpus=free) for name, free in nodes.items()]
    return PlacementRound(waiting, running, slots, table or Table(), RULES)


def test_a_round_takes_the_queue_by_rank_and_the_nodes_by_name() -> None:
    """Whatever the order of the arguments."""
    begun = a_round(
        [job("c", rank=2.0), job("b", rank=1.0), job("a", rank=2.0)], [], {"z": 1, "y": 2}
    )
    assert [candidate.job for candidate in begun.waiting] == ["b", "a", "c"]
    assert list(begun.free.items()) == [("y", 2), ("z", 1)]


def test_a_released_job_is_slurm_s() -> None:
    """No place, and not put off; it is not among those that are left."""
    begun = a_round([job("a"), job("b")], [], {"n1": 1})
    begun.release("a", "because", start=True)
    assert begun.steps["a"] == PlacementAction(
        job="a", start=True, place=None, reason="because", pair=None, room=True, free=True
    )
    assert [candidate.job for candidate in begun.left()] == ["b"]
    begun.release("b", "because", start=False)
    assert not begun.steps["b"].start


def test_a_bound_job_takes_the_cpus_of_its_place() -> None:
    """Up to the last; the next finds what is left."""
    waiting = [job("a", cpus=2), job("b", cpus=1, rank=1.0)]
    begun = a_round(waiting, [], {"n1": 2, "n2": 5})
    begun.begin_bound({"a": "n1", "b": "n1"})
    assert begun.steps == {
        "a": PlacementAction(
            job="a", start=True, place="n1", reason="its turn has come", pair=None, free=True
        )
    }
    assert (begun.free, [candidate.place for candidate in begun.begun]) == (
        {"n1": 0, "n2": 5},
        ["n1"],
    )
    assert [candidate.job for candidate in begun.running] == ["a"]
    apart = a_round([job("a")], [job("r", place="n1")], {"n1": 1}, Table({"ar": 0.1}))
    apart.begin_bound({"a": "n1"})
    assert apart.steps == {}
    elsewhere = a_round([job("a")], [job("r", place="n2")], {"n1": 1, "n2": 1}, Table({"ar": 0.1}))
    elsewhere.begin_bound({"a": "n1"})
    assert elsewhere.steps["a"].place == "n1"
    unknown = a_round([job("a")], [], {"n1": 1})
    unknown.begin_bound({"a": "n9"})
    assert unknown.steps == {}


def test_a_newcomer_joins_those_that_run() -> None:
    """With the pair's reason, and only where its CPUs fit."""
    begun = a_round([job("a", cpus=2)], [job("r", place="n1")], {"n1": 2})
    begun.begin_all()
    step = begun.steps["a"]
    assert (step.start, step.place, step.free, step.room) == (True, "n1", True, True)
    assert step.reason == (
        "a at least 100%, r at least 100% of their speed alone; 100 s earlier than one after the"
        " other"
    )
    assert step.pair is not None
    assert step.pair.jobs == ("a", "r")
    assert begun.free == {"n1": 0}
    full = a_round([job("a", cpus=2)], [job("r", place="n1")], {"n1": 1})
    full.begin_all()
    assert full.steps == {}


def test_a_pair_takes_an_idle_node_that_holds_both() -> None:
    """The first by name; a job without a partner has a node to itself."""
    waiting = [job("a", cpus=2), job("b", cpus=1)]
    begun = a_round(waiting, [], {"n2": 3, "n1": 2, "n3": 3})
    begun.begin_all()
    assert {name: step.place for name, step in begun.steps.items()} == {"a": "n2", "b": "n2"}
    assert begun.free == {"n1": 2, "n2": 0, "n3": 3}
    assert begun.steps["a"].pair == begun.steps["b"].pair
    alone = a_round(
        [job("a", cpus=2)], [job("r", place="n1")], {"n1": 2, "n2": 2}, Table({"ar": 0.1})
    )
    alone.begin_all()
    assert (alone.steps["a"].place, alone.steps["a"].reason) == ("n2", "a node to itself")
    assert alone.steps["a"].pair is None


def test_half_of_a_pair_without_an_idle_node_joins_who_runs() -> None:
    """In the end only jobs that run are asked: two newcomers need a node of their own."""
    table = Table({"ab": 1.0, "ba": 1.0}, usual=0.86)
    begun = a_round([job("a"), job("b", rank=1.0)], [job("r", place="n1")], {"n1": 1}, table)
    begun.begin_all()
    assert [(name, step.place) for name, step in begun.steps.items()] == [("a", "n1")]
    newcomers = begun.matched([job("x"), job("y")], newcomers_only=True)
    assert all(pair.place for pair in newcomers)


def test_those_that_wait_are_told_what_is_in_their_way() -> None:
    """No room; who they would be beside; or the others' turn."""
    running = [job("r", place="n2")]
    begun = a_round(
        [job("a", cpus=3), job("b", cpus=2), job("c", cpus=1)],
        running,
        {"n1": 0, "n2": 2},
        Table({"br": 0.5}),
    )
    begun.keep_waiting()
    no_room = PlacementAction(
        job="a", start=False, place=None, reason="no node has room", room=False
    )
    assert begun.steps["a"] == no_room
    assert not no_room.free
    assert begun.steps["b"].reason == "b may run at 50% of its speed alone, its floor is 85%"
    assert (begun.steps["b"].room, begun.steps["b"].start) == (True, False)
    assert begun.steps["c"].reason == "others go first"
    idle = a_round([job("a")], [], {"n1": 1})
    idle.keep_waiting()
    assert idle.steps["a"].reason == "others go first"


def test_a_pair_is_frozen_facts() -> None:
    """Sorted jobs, speeds by job, seconds, a place and a reason."""
    (pair,) = pairs([job("b"), job("a")], [], Table(), rules=RULES)
    assert isinstance(pair, Pair)
    assert (pair.jobs, sorted(pair.speeds), pair.weight) == (("a", "b"), ["a", "b"], 100.0)
    assert why_not(job("a"), [job("b", place="n1")], Table(), RULES) is None


# -- monitor -----------------------------------------------------------------------------------


def test_the_monitor_s_constants() -> None:
    """A minute, three windows, 3 % of speed, a tenth of memory; a week to a quarter, a year."""
    assert (monitor.PATIENCE_S, monitor.WINDOWS, monitor.MARGIN) == (60.0, 3, 0.03)
    assert (monitor.EXCEEDED, monitor.FORGET_S) == (1.10, 365 * 86400.0)
    fresh = CoLocation(job="a", floor=0.8)
    assert (fresh.patience_s, fresh.requested_mem_bytes, fresh.mean_speed) == (60.0, None, None)
    assert fresh.state is CoLocationState.FINE
    assert [state.value for state in CoLocationState] == [
        "at or above its floor",
        "below its floor for a while",
        "takes more memory than it said",
    ]


def test_the_mean_speed_is_of_the_time_seen() -> None:
    """Windows without a speed do not count; their memory does."""
    fresh = CoLocation(job="a", floor=0.8, requested_mem_bytes=100.0)
    after = update(update(fresh, Window(seconds=10.0, speed=0.5)), Window(seconds=30.0, speed=0.9))
    assert after.seen_s == 40.0
    assert after.mean_speed == pytest.approx(0.8)
    unseen = update(after, Window(seconds=5.0, mem_bytes=120.0))
    assert (unseen.seen_s, unseen.worked, unseen.most_mem_bytes) == (40.0, after.worked, 120.0)
    assert unseen.state is CoLocationState.MEMORY_EXCEEDED
    assert replace(unseen, requested_mem_bytes=None).state is CoLocationState.FINE
    at_bound = replace(unseen, requested_mem_bytes=10.0, most_mem_bytes=1.10 * 10.0)
    assert at_bound.state is CoLocationState.FINE
    assert replace(unseen, requested_mem_bytes=0.0).state is CoLocationState.MEMORY_EXCEEDED
    assert update(fresh, Window(seconds=nan, speed=0.5, mem_bytes=999.0)) == fresh
    assert update(fresh, Window(seconds=1.0, speed=inf, mem_bytes=nan)) == fresh


def test_time_well_above_the_floor_takes_away_what_was_below() -> None:
    """At the margin's end it does; windows are forgotten with the last second."""
    below = CoLocation(job="a", floor=0.5, below_s=10.0, windows_below=2)
    at_margin = update(below, Window(seconds=4.0, speed=0.53))
    assert (at_margin.below_s, at_margin.windows_below) == (6.0, 2)
    assert update(below, Window(seconds=10.0, speed=1.0)).windows_below == 0
    assert update(below, Window(seconds=10.0, speed=1.0)).below_s == 0.0
    again = update(below, Window(seconds=3.0, speed=0.49))
    assert (again.below_s, again.windows_below) == (13.0, 3)


def test_every_two_of_those_that_were_together_are_kept_apart() -> None:
    """Runs of one key as well; each time counts; what is a year old is forgotten."""
    year = 365 * 86400.0
    old = {
        frozenset("ab"): PairCooldown(5.0, 2),
        frozenset("xy"): PairCooldown(5.0),
        frozenset("pq"): PairCooldown(6.0),
    }
    now_s = 5.0 + year - 0.5
    found = add_cooldown(old, ["b", "a", "c"], now_s)
    assert found == old | {
        frozenset("ab"): PairCooldown(now_s, 3),
        frozenset("ac"): PairCooldown(now_s, 1),
        frozenset("bc"): PairCooldown(now_s, 1),
    }
    assert add_cooldown(old, ["a"], 5.0 + year) == {frozenset("pq"): PairCooldown(6.0)}
    assert add_cooldown({}, ["a", "a"], 7.0) == {frozenset("a"): PairCooldown(7.0, 1)}
    assert add_cooldown({}, ["a", ""], 7.0) == {}
    assert add_cooldown({}, [], 7.0) == {}
    assert old[frozenset("ab")] == PairCooldown(5.0, 2)


def test_kept_apart_are_those_whose_cooldown_holds() -> None:
    """On its last second no more."""
    week = 7 * 86400.0
    cooldowns = {frozenset("ab"): PairCooldown(0.0), frozenset("c"): PairCooldown(1.0)}
    assert kept_apart(cooldowns, week - 1) == {frozenset("ab"), frozenset("c")}
    assert kept_apart(cooldowns, week) == {frozenset("c")}
    assert kept_apart(cooldowns, week + 1) == frozenset()
