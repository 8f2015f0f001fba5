"""The advice benchmark's machine and its scores."""

import random

import pytest

from contrib.bench.advice.machine import Machine, Program
from contrib.bench.advice.profiles import CONTROLS, FAULTS, PROFILES
from contrib.bench.advice.ranks import iteration
from contrib.bench.advice.scoring import is_right, scores


def test_two_that_compute_share_a_core() -> None:
    """Each gets half of it, and queues for as long as it computes."""

    def program() -> Program:
        yield "cpu", 1.0

    machine = Machine(cores=1.0)
    both = [machine.start(program()) for _ in range(2)]
    machine.run(lambda: all(one.over for one in both))
    assert machine.now == pytest.approx(2.0)
    assert both[0].queued_s == pytest.approx(1.0)


def test_a_bucket_is_sent_when_both_ranks_have_it() -> None:
    """And when the one before is through."""
    begins, end = iteration([[1.0, 2.0], [1.5, 2.0]], 1.0)
    assert (begins, end) == ([1.5, 2.5], 3.5)


def test_right_is_the_first_and_nothing_forbidden() -> None:
    """A right word behind a wrong one is wrong, and so is a forbidden one behind the right one."""
    profile = PROFILES["starved"]
    assert is_right(profile, [("cores", "more_cpus")])
    assert not is_right(profile, [("data", "cheaper_samples"), ("cores", "more_cpus")])
    assert not is_right(profile, [("cores", "more_cpus"), ("data", "more_workers")])
    assert is_right(PROFILES["healthy"], [])
    assert not is_right(PROFILES["healthy"], [("cores", "more_cpus")])


def test_a_fault_is_right_if_all_its_seeds_are() -> None:
    """One wrong seed of ten is a wrong fault, and shows in the matrix."""
    right, wrong = [("cores", "more_cpus")], [("data", "more_workers")]
    told = scores({"starved": [right, wrong], "healthy": [[], []]})
    assert (told["faults_right"], told["controls_silent"]) == (0, 1)
    assert told["confusion"]["starved"] == {"more_cpus": 1, "more_workers": 1}
    assert told["said_what_must_not_be"] == 1


def test_twelve_faults_and_two_controls() -> None:
    """Each fault has something right; a seed makes the same record twice."""
    assert (len(FAULTS), len(CONTROLS)) == (12, 2)
    made = [PROFILES["tiny_step"].record(random.Random(3))["times"] for _ in range(2)]
    assert made[0] == made[1]
