"""Terms and matching of pairs: bounds, weights, words of what cannot be meant."""

from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from slurm_ext.core.errors import InputError
from slurm_ext.core.gpu_sharing import SoloProfile
from slurm_ext.policy.colocation.choose_pairs import (
    EARLIER,
    NO_TIME,
    PredictionCache,
    fit_to_share,
    pairs,
)
from slurm_ext.policy.colocation.matching import best_matching
from slurm_ext.policy.colocation.terms import FLOOR, WINDOW, Candidate, SharingRules, check
from tests.policy.colocation.sharers import RULES, Table, job


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
