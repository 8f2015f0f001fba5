"""A training's step as one bar: from summaries as the probe writes them."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.core.stalls.rank_waits import link_shares
from slurm_ext.core.stalls.step_split import PARTS, StepSplit, step_split

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "probe" / "v1.json").read_text())
STEPS = 100
ITERATIONS = [10, 20, 30]


def summary(rank: int = 0, *, exposed: list[float] | None = None, **phase: Any) -> dict[str, Any]:
    """One process's, of 100 steps of 200 ms unless said otherwise; sums are of all steps."""
    made: dict[str, Any] = deepcopy(GOLDEN)
    made |= {"rank": rank, "world_size": 1 if exposed is None else 2, "pid": 4242 + rank}
    (loader,) = made["loaders"]
    loader |= {"startup_s": 0.0, "phases": [loader["phases"][0]]}
    sums = {"batches": STEPS, "samples": 32 * STEPS, "steps": STEPS, "fetch_samples": 32 * STEPS}
    zero = dict.fromkeys(("wait_s", "first_wait_s", "fetch_wall_s", "fetch_cpu_s"), 0.0)
    zero |= dict.fromkeys(("fetch_queued_s", "wait_queued_s", "step_queued_s"), 0.0)
    loader["phases"][0] |= {**sums, **zero, "step_s": 20.0, "workers": 1.0, **phase}
    loader["phases"][0]["wall_s"] = loader["phases"][0]["wait_s"] + loader["phases"][0]["step_s"]
    made["communication"] = None
    if exposed is not None:
        mean = sum(exposed) / len(exposed)
        times = {"comm_s": 0.03 + mean, "overlap_s": 0.03, "per_step": 1.0, "steps": len(exposed)}
        made["communication"] = {**times, "iterations": ITERATIONS, "exposed_s": exposed}
    return made


def split(*summaries: dict[str, Any]) -> StepSplit:
    """Of processes that trained together."""
    found = step_split(summaries)
    assert found is not None
    return found


def parts(found: StepSplit) -> dict[str, float]:
    """Those that are not zero, in ms."""
    return {name: round(1000 * s, 3) for name, s in found.parts.items() if s > 1e-7}


def test_a_step_that_waits_for_nothing_is_all_computing() -> None:
    """200 ms."""
    found = split(summary())
    assert parts(found) == {"computing": 200.0}
    assert (found.au, found.ranks, found.rank_skew_s, found.slow_rank) == (1.0, 1, None, None)


def test_waits_for_data_are_told_apart() -> None:
    """Storage, preparing, cores of the loop itself, and starting workers."""
    found = split(
        summary(
            wait_s=15.0, fetch_wall_s=35.0, fetch_cpu_s=25.0, first_wait_s=2.35, wait_queued_s=1.0
        )
    )
    # Of 150 ms a step the start took 20 (one pass, less the making of its batch), the queue 10;
    # the rest is 120: without storage, 250 ms of CPU for a step of 200 would wait.
    assert parts(found)["starting"] == pytest.approx(20.0)
    assert parts(found)["cores"] == pytest.approx(10.0)
    assert found.fetch_s + found.preparation_s == pytest.approx(0.12)
    assert found.preparation_s < found.fetch_s
    assert found.step_s == pytest.approx(0.35)
    assert found.au == pytest.approx(20 / (20 + 15 - 2.35))


def test_a_loop_that_fetches_itself_waits_once_for_a_core() -> None:
    """Its queue is the fetch's: 30 ms of storage, 20 of cores, 50 of preparing."""
    costs: dict[str, Any] = {"fetch_wall_s": 10.0, "fetch_cpu_s": 5.0, "fetch_queued_s": 2.0}
    found = split(summary(wait_s=10.0, wait_queued_s=2.0, first_wait_s=0.1, workers=0.0, **costs))
    wanted = {"computing": 200.0, "fetch": 30.0, "preparation": 50.0, "cores": 20.0}
    assert parts(found) == pytest.approx(wanted)


def test_starting_workers_counts_though_no_batch_is_waited_for() -> None:
    """It lies before the pass's first wait."""
    one = summary()
    one["loaders"][0]["startup_s"] = 3.0
    assert parts(split(one)) == {"computing": 200.0, "starting": 30.0}


def test_a_core_that_is_missing_in_the_step_is_no_computing() -> None:
    """Nor is it the loader's."""
    assert parts(split(summary(step_queued_s=4.0))) == {"computing": 160.0, "crowded": 40.0}


def test_ranks_that_come_at_one_time_wait_for_the_link() -> None:
    """Both wait 60 ms after their computing."""
    found = split(summary(0, exposed=[0.06] * 3), summary(1, exposed=[0.06] * 3))
    assert parts(found) == {"computing": 140.0, "communicating": 60.0}
    assert (found.rank_skew_s, found.ranks) == (0.0, 2)


def test_the_rank_that_comes_last_is_waited_for() -> None:
    """Rank 1 computes 50 ms longer, and waits 10 ms for the link alone."""
    found = split(summary(0, exposed=[0.06] * 3), summary(1, exposed=[0.01] * 3))
    assert parts(found) == {"computing": 140.0, "communicating": 10.0, "slow_rank": 50.0}
    assert found.rank_skew_s == pytest.approx(0.05)
    assert found.slow_rank == 1
    assert found.au == pytest.approx(0.75)


def test_ranks_that_are_late_in_turns_wait_for_each_other() -> None:
    """Their means are the same; iteration by iteration one of them is waited for."""
    shares = link_shares(
        [summary(0, exposed=[0.05, 0.01, 0.05]), summary(1, exposed=[0.01, 0.05, 0.01])]
    )
    assert shares == pytest.approx([0.01 / (0.11 / 3), 0.01 / (0.07 / 3)])


def test_without_common_iterations_the_means_are_compared() -> None:
    """An older probe, or a rank whose module was made anew."""
    other = summary(1, exposed=[0.02] * 3)
    other["communication"]["iterations"] = [11, 21, 31]
    assert link_shares([summary(0, exposed=[0.06] * 3), other]) == pytest.approx([1 / 3, 1.0])


def test_a_rank_without_communication_says_nothing_of_others() -> None:
    """Such as one whose optimiser is not torch's."""
    found = split(summary(0, exposed=[0.06] * 3), summary(1))
    assert parts(found) == {"computing": 140.0, "communicating": 60.0}
    assert found.rank_skew_s is None


def test_batches_that_share_a_step_share_its_communication() -> None:
    """Four batches, one synchronised pass: a quarter of it each."""
    one = summary(0, exposed=[0.06] * 3, steps=25) | {"optimizer": None}
    assert parts(split(one)) == {"computing": 185.0, "communicating": 15.0}


@pytest.mark.parametrize(
    "phase",
    [{"batches": 3}, {"samples": 0}, {"step_s": 0.0}, {"step_s": 1e17}, {"fetch_wall_s": 1e17}],
    ids=str,
)
def test_what_cannot_be_has_no_split(phase: dict[str, Any]) -> None:
    """Too few batches, none that took time, or seconds that nobody measured."""
    assert step_split([summary(**phase)]) is None
    assert step_split([]) is None


AMOUNT = st.one_of(st.just(0.0), st.floats(0.0, 1e9))
PHASE = st.fixed_dictionaries(
    dict.fromkeys(
        (
            *("wait_s", "step_s", "first_wait_s", "fetch_wall_s", "fetch_cpu_s"),
            *("fetch_queued_s", "wait_queued_s", "step_queued_s", "workers"),
        ),
        AMOUNT,
    )
)


@given(PHASE, st.lists(st.floats(0.0, 1e6), min_size=3, max_size=3), AMOUNT)
def test_whatever_was_measured_parts_add_up_to_the_step(
    phase: dict[str, float], exposed: list[float], startup_s: float
) -> None:
    """No part is below zero, and AU is a share."""
    one = summary(0, exposed=exposed, **phase)
    one["loaders"][0]["startup_s"] = startup_s
    found = step_split([one, summary(1, exposed=[0.01] * 3)])
    assert found is None or min(found.parts.values()) >= 0
    found = step_split([one])
    if found is not None:
        measured = (phase["wait_s"] + phase["step_s"] + startup_s) / STEPS
        assert found.step_s == pytest.approx(measured, rel=1e-6, abs=1e-6)
        assert 0 <= found.au <= 1
        assert tuple(found.parts) == PARTS


def test_numbers_that_overflow_are_no_split() -> None:
    """Hardly a sample fetched in ages: within a record's range, and of no machine."""
    absurd = summary(fetch_samples=5e-324, fetch_wall_s=1.0, fetch_cpu_s=1.0)
    assert step_split([absurd]) is None
