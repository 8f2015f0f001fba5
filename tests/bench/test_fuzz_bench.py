"""The fuzzed pairs: a few hundred seeded inputs of each, and a frame that counts what it sees."""

from random import Random

import pytest

from contrib.bench.fuzz.__main__ import pairs
from contrib.bench.fuzz.mutate import HOSTILE, mutated, mutated_text
from contrib.bench.fuzz.pair import STUCK, TRACEBACK, Pair, Tried


@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: pair.name)
def test_hostile_inputs_do_no_harm(pair: Pair) -> None:
    """No traceback, no stuck pipeline, no change for a stranger; the same inputs each time."""
    tried = pair.run(400, Random(12))
    assert tried.findings == []
    assert tried.inputs >= 400


def test_an_exception_and_a_stop_are_findings() -> None:
    """Each is counted; one of a kind is kept with its input."""
    tried = Tried()
    for given in ("a", "b"):
        with tried.one(given):
            raise OverflowError("too large")
        tried.add(STUCK, given, "waits for ever")
    assert tried.inputs == 2
    assert tried.counts == {TRACEBACK: 2, STUCK: 2}
    assert [(finding.kind, finding.given) for finding in tried.findings] == [
        (TRACEBACK, "a"),
        (STUCK, "a"),
    ]


def test_damage_comes_again_and_leaves_the_original() -> None:
    """A finding can be had again from its seed."""
    honest = {"a": [1, {"b": "text"}], "c": 2.0}
    first, again = ([mutated(honest, Random(seed)) for seed in range(50)] for _ in range(2))
    assert repr(first) == repr(again)
    assert any(one != honest for one in first)
    assert honest == {"a": [1, {"b": "text"}], "c": 2.0}
    assert mutated_text("1-00:00", Random(3)) == mutated_text("1-00:00", Random(3))
    assert len(HOSTILE) > 30
