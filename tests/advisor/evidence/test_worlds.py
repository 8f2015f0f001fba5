"""Worlds in which a change has to hold, and intervals that reach down to them."""

from dataclasses import replace

import pytest

from slurm_ext.advisor.evidence.whole_run import WholeRun
from slurm_ext.advisor.evidence.worlds import FULL, told, worlds_of
from slurm_ext.core.records import Decision, Shape
from slurm_ext.model.throughput.estimate import Estimate, predict
from tests.builders import STARVED, estimate_of

QUIET = replace(STARVED, fetch_queued_s=0.0, step_queued_s=0.0, main_queued_s=0.0)
KNOWN = estimate_of(QUIET)
FOUR = Shape(cpus_per_task=4, num_workers=4)
ALONE = WholeRun()


def rates(
    known: Estimate, shape: Shape, *, shared_by: int | None = None, whole: WholeRun = ALONE
) -> list[float]:
    """The rate of each world of a job on a node of eight cores."""
    return [one(shape) for one in worlds_of(known, whole, node_cores=8, shared_by=shared_by)]


def test_a_job_on_cores_of_its_own_that_met_nobody_has_one_world() -> None:
    """The one that the policy searches; there is no other."""
    assert rates(KNOWN, FOUR) == []


def test_runs_that_met_others_have_their_worlds() -> None:
    """Alone, and as crowded as the worst of them; the last ones' crowd is the policy's own."""
    crowded = replace(KNOWN, others=0.5, most_others=2.0)
    alone, beside = rates(crowded, FOUR)
    assert alone == pytest.approx(predict(KNOWN, FOUR).samples_per_s)
    assert beside < alone / 2
    (older,) = rates(replace(crowded, others=0.0), FOUR)
    assert older == beside


def test_a_full_node_gives_each_process_its_share() -> None:
    """More workers have more of it, and CPUs that went back bring others."""
    assert FULL >= 1
    fewer, more = (replace(FOUR, num_workers=count) for count in (2, 8))
    (few,), (four,), (many,) = (rates(KNOWN, one, shared_by=4) for one in (fewer, FOUR, more))
    assert few < 0.8 * four < 0.8 * many
    (without,) = rates(KNOWN, replace(FOUR, cpus_per_task=1), shared_by=4)
    assert without < four
    (grown,) = rates(KNOWN, replace(FOUR, cpus_per_task=8), shared_by=4)
    assert grown == four


def test_starts_take_longer_beside_others() -> None:
    """Than where they were measured; what else the whole run takes counts in every world."""
    crowded = replace(KNOWN, most_others=2.0)
    (steady,) = rates(crowded, FOUR)
    (whole,) = rates(crowded, FOUR, whole=WholeRun(beside_s=0.01, start_s=0.001))
    assert 1 / whole - 1 / steady == pytest.approx(0.01 + 3 * 0.001 * 4)
    met = replace(crowded, others=2.0)
    _, steady = rates(met, FOUR)
    _, whole = rates(met, FOUR, whole=WholeRun(beside_s=0.01, start_s=0.001))
    assert 1 / whole - 1 / steady == pytest.approx(0.01 + 0.001 * 4)


def test_ranks_of_a_task_share_what_it_has() -> None:
    """Two ranks on four CPUs do what each would on two."""
    crowded = replace(KNOWN, most_others=1.0)
    two = replace(FOUR, cpus_per_task=2)
    assert rates(crowded, FOUR, whole=WholeRun(2, per_task=2)) == rates(crowded, two)


def test_what_is_told_reaches_down_to_every_world() -> None:
    """Bounds above stay; where all worlds are faster, so do those below."""
    prediction = predict(KNOWN, FOUR)
    decision = Decision(
        action="leave",
        reason="fine",
        before=FOUR,
        after=FOUR,
        predicted_before=prediction,
        predicted_after=prediction,
    )
    slow = told(decision, [lambda _: prediction.samples_per_s / 4, lambda _: 1e9])
    assert slow.predicted_after == slow.predicted_before
    assert slow.predicted_after is not None
    assert slow.predicted_after.samples_per_s == prediction.samples_per_s
    assert slow.predicted_after.interval.low == pytest.approx(prediction.interval.low / 4)
    assert slow.predicted_after.interval.high == prediction.interval.high
    assert told(decision, [lambda _: 1e9]) == told(decision, []) == decision
    silent = replace(decision, predicted_before=None, predicted_after=None)
    assert told(silent, [lambda _: 1.0]) == silent
