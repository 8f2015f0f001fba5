"""Worlds in which a change has to hold, and what is told of the one that a job has not met."""

from dataclasses import replace

import pytest

from slurm_ext.advisor.evidence.whole_run import WholeRun
from slurm_ext.advisor.evidence.worlds import FULL, NO_GAIN, worlds_of
from slurm_ext.core.records import Decision, Prediction, Shape
from slurm_ext.model.throughput.estimate import Estimate
from slurm_ext.model.throughput.shape_predictor import predict
from tests.builders import STARVED, estimate_of

QUIET = replace(STARVED, fetch_queued_s=0.0, step_queued_s=0.0, main_queued_s=0.0)
KNOWN = estimate_of(QUIET)
FOUR = Shape(cpus_per_task=4, num_workers=4)
ALONE = WholeRun()


def rates(
    known: Estimate, shape: Shape, *, shared_by: int | None = None, whole: WholeRun = ALONE
) -> list[float]:
    """The rate of each world of a job on a node of eight cores."""
    worlds = worlds_of(known, whole, node_cores=8, shared_by=shared_by)
    return [one(shape) for one in worlds.rates]


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
    (_, few), (_, four), (_, many) = (rates(KNOWN, s, shared_by=4) for s in (fewer, FOUR, more))
    assert few < 0.8 * four < 0.8 * many
    _, without = rates(KNOWN, replace(FOUR, cpus_per_task=1), shared_by=4)
    assert without < four
    _, grown = rates(KNOWN, replace(FOUR, cpus_per_task=8), shared_by=4)
    assert grown == four


def test_alone_where_no_cores_are_kept_a_job_has_its_nodes() -> None:
    """For any number of CPUs: they are a number of Slurm's."""
    every = replace(FOUR, cpus_per_task=8)
    for cpus in (1, 4, 8):
        alone, _ = rates(KNOWN, replace(FOUR, cpus_per_task=cpus), shared_by=4)
        assert alone == pytest.approx(predict(KNOWN, every).samples_per_s)


def change(after: Shape, *, shared_by: int | None) -> Decision:
    """What remains of a change of FOUR to `after` that wants a gain of 5 %."""
    before, changed = predict(KNOWN, FOUR), predict(KNOWN, after)
    decision = Decision(
        action="change",
        reason="it waits",
        before=FOUR,
        after=after,
        predicted_before=before,
        predicted_after=changed,
    )
    return worlds_of(KNOWN, ALONE, node_cores=8, shared_by=shared_by).worth(decision, 0.05)


def test_cpus_that_nobody_keeps_for_a_job_are_no_gain() -> None:
    """More CPUs alone change nothing there; more workers do, and CPUs may be given back."""
    more = replace(FOUR, cpus_per_task=8)
    assert change(more, shared_by=None).action == "change"
    left = change(more, shared_by=4)
    assert (left.action, left.reason, left.after) == ("leave", NO_GAIN, FOUR)
    assert change(replace(FOUR, num_workers=8), shared_by=4).action == "change"
    assert change(replace(FOUR, cpus_per_task=3), shared_by=4).action == "change"


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


def crowded(known: Estimate, *, beside: float = 1.0, shared_by: int | None = None) -> Prediction:
    """What is told of a job that met nobody lately, with the other world."""
    own = predict(known, FOUR, factor=2.0)
    decision = Decision(
        action="leave",
        reason="fine",
        before=FOUR,
        after=FOUR,
        predicted_before=own,
        predicted_after=own,
    )
    worlds = worlds_of(known, ALONE, node_cores=8, shared_by=shared_by)
    told = worlds.told(decision, 2.0, beside).predicted_after
    assert told is not None
    assert replace(told, elsewhere=None) == own
    return told


def test_a_crowd_that_nobody_met_lies_between_none_and_a_full_node() -> None:
    """Its bounds are what cores of its own give, and what a full node leaves."""
    own, told = predict(KNOWN, FOUR), crowded(KNOWN, shared_by=4).elsewhere
    _, full = rates(KNOWN, FOUR, shared_by=4)
    assert told is not None
    assert told.crowded
    assert full < told.samples_per_s < own.samples_per_s
    assert told.interval.high == pytest.approx(own.interval.high)
    assert told.interval.low == pytest.approx(full * own.interval.low / own.samples_per_s)


def test_a_crowd_that_older_runs_met_has_its_rate_and_bounds() -> None:
    """Whether or not the node may be fuller; a job that met one lately knows both already."""
    older = replace(KNOWN, most_others=1.0)
    for shared_by in (None, 4):
        rate = rates(older, FOUR, shared_by=shared_by)[0 if shared_by is None else 1]
        told = crowded(older, shared_by=shared_by).elsewhere
        assert told is not None
        assert told.samples_per_s == pytest.approx(rate)
        assert told.interval.low < rate < told.interval.high < predict(KNOWN, FOUR).samples_per_s
    lately = replace(older, others=1.0, by_other_jobs=True)
    assert worlds_of(lately, ALONE, node_cores=8, shared_by=4).crowd is None
    assert crowded(KNOWN).elsewhere is None


def test_each_world_has_its_own_width() -> None:
    """Outcomes beside others widen what is told of those, by that power of its bounds' ratio."""
    once, twice = (crowded(KNOWN, beside=beside, shared_by=4) for beside in (1.0, 2.0))
    assert once.interval == twice.interval
    assert once.elsewhere is not None
    assert once.elsewhere.widened(2.0) == twice.elsewhere


def test_a_decision_without_predictions_has_no_worlds() -> None:
    """There is nothing to tell."""
    silent = Decision(action="leave", reason="", before=FOUR, after=FOUR)
    worlds = worlds_of(KNOWN, ALONE, node_cores=8, shared_by=4)
    assert worlds.told(silent, 1.0, 1.0) == silent
