"""The stalls that `stalls` injects, by the clock of the program that has them."""

from typing import Any

from contrib.bench.stalls.__main__ import wanted
from contrib.bench.stalls.configurations import CONFIGURATIONS, JITTER, Injected
from contrib.bench.stalls.truth import STALLS, true_parts

STEPS = 50


def clock(
    wait_s: float = 0.0, step_s: float = 0.1, exposed: float = 0.0, **more: Any
) -> dict[str, Any]:
    """Of 50 steps of one pass."""
    each = {"wait_s": [wait_s] * STEPS, "step_s": [step_s] * STEPS, "exposed_s": [exposed] * STEPS}
    return {**each, "first": [0], "worked": [8.0, 0.0, 0.0, 0.0], **more}


def parts(injected: Injected, *clocks: dict[str, Any]) -> dict[str, float]:
    """Those that are not zero, in ms."""
    found = true_parts(injected, clocks)
    return {name: round(1000 * seconds, 3) for name, seconds in found.items() if seconds > 1e-6}


def test_sleeping_samples_are_fetching() -> None:
    """200 ms of one worker for a step of 100."""
    one = clock(0.1, worked=[8.0, 0.2, 0.0, 0.2])
    assert parts(Injected(workers=1), one) == {"computing": 100.0, "fetch": 100.0}
    assert parts(Injected(workers=0), one) == {"computing": 100.0, "fetch": 200.0}
    assert parts(Injected(workers=4), one) == {"computing": 100.0}


def test_spinning_samples_are_preparing_and_wait_for_cores() -> None:
    """150 ms of CPU in 600 ms, with four workers: 50 ms too slow, for want of cores alone."""
    found = parts(Injected(workers=4), clock(0.05, worked=[8.0, 0.6, 0.15, 0.0]))
    assert found == {"computing": 100.0, "cores": 50.0}
    found = parts(Injected(workers=1), clock(0.05, worked=[8.0, 0.15, 0.15, 0.0]))
    assert found == {"computing": 100.0, "preparation": 50.0}


def test_the_first_batch_of_a_pass_waits_for_its_workers() -> None:
    """A second in 50 steps, beside the making of the batch."""
    waits = [1.02] + [0.0] * (STEPS - 1)
    found = parts(Injected(workers=2), clock(wait_s=0.0, worked=[8.0, 0.02, 0.0, 0.02]))
    assert found == {"computing": 100.0}
    one = clock(worked=[8.0, 0.02, 0.0, 0.02]) | {"wait_s": waits}
    assert parts(Injected(workers=2), one) == {"computing": 100.0, "starting": 20.0}


def test_the_rank_that_comes_last_waits_for_the_link_alone() -> None:
    """The other one waits for it, too."""
    injected = Injected(ranks=2, mbit=800)
    found = parts(injected, clock(step_s=0.16, exposed=0.06), clock(step_s=0.16, exposed=0.02))
    assert found == {"computing": 100.0, "communicating": 20.0, "slow_rank": 40.0}


def test_seeds_draw_costs_within_their_bounds() -> None:
    """The same ones each time; seed 0 has those that are written down."""
    for one in CONFIGURATIONS.values():
        assert one.drawn(0) == one
        drawn = one.drawn(3)
        assert drawn == one.drawn(3)
        assert abs(drawn.compute_s / one.compute_s - 1) <= JITTER
        assert (drawn.workers, drawn.ranks, drawn.mbit) == (one.workers, one.ranks, one.mbit)


def test_a_missed_target_is_told_with_its_configuration() -> None:
    """The worst run of each."""
    good = dict.fromkeys(("large_error", "small_error", "sum_error", "au_error"), 0.0)
    rows = wanted({"fetch": [{**good, "wall_s": 5.0}], "link": [{**good, "large_error": 0.06}]})
    assert [row["met"] for row in rows] == [False, True, True, True]
    assert "worst: link" in rows[0]["what"]
    stash = {"fetch": [{**good, "wall_s": 5.0, "stash": {"wall_s": 20.0}}]}
    assert wanted(stash)[-1]["got"] == 4.0
    assert "computing" not in STALLS
