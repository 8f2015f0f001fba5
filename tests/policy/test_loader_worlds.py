"""The loader policy in several worlds: a change holds in each, or the job stays as written."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.core.records import Shape
from slurm_ext.policy.loader import CROWDED, TARGET, decide
from tests.policy.loader_cases import NODE, from_run, mean, shape
from tests.policy.test_loader_laws import CASES, RSS, Case

STARVED = from_run(accel=1000, wall=0.015, cpu=0.0148)
IDLE = from_run(accel=50, wall=0.01, cpu=0.008, workers=2, cores=8)


def worse_by(cpus: float, workers: float) -> Callable[[Shape], float]:
    """A world in which each CPU and each worker is worth so much."""
    return lambda one: 1 + cpus * one.cpus_per_task + workers * one.num_workers


@given(CASES, st.lists(st.tuples(st.floats(-0.005, 1), st.floats(-0.005, 1)), max_size=3))
def test_a_change_keeps_its_rate_in_every_world(
    case: Case, worths: list[tuple[float, float]]
) -> None:
    """Or there is none; without worlds nothing is asked."""
    worlds = [worse_by(cpus, workers) for cpus, workers in worths]
    told = decide(
        shape(case.cpus, case.workers),
        from_run(accel=1 / case.accel_s, wall=case.wall, cpu=case.wall * case.share),
        case.limits,
        may_change_cpus=case.may,
        worker_rss_bytes=RSS,
        worlds=worlds,
    )
    assert all(world(told.after) >= TARGET * world(told.before) for world in worlds)
    assert (told.action == "leave") == (told.after == told.before)


def test_a_gain_that_a_crowd_turns_into_a_loss_is_not_made() -> None:
    """The reason says where."""
    assert decide(shape(2, 0), STARVED, NODE).action == "change"
    told = decide(shape(2, 0), STARVED, NODE, worlds=[worse_by(0, -0.1)])
    assert (told.action, told.after, told.reason) == ("leave", shape(2, 0), CROWDED)


def test_cpus_that_would_be_missed_stay_and_workers_come_all_the_same() -> None:
    """A change that gives CPUs back is tried without that before it is dropped."""
    light = from_run(accel=100, wall=0.015, cpu=0.0148)
    free = decide(shape(8, 0), light, NODE, may_change_cpus="any")
    assert free.after.cpus_per_task < 8
    kept = decide(shape(8, 0), light, NODE, may_change_cpus="any", worlds=[worse_by(1, 0.01)])
    assert kept.after.cpus_per_task == 8
    assert kept.after.num_workers > 0
    assert mean(kept.predicted_after) > mean(kept.predicted_before)


def test_idle_cpus_stay_where_others_would_use_them_against_the_job() -> None:
    """The same job gives them back where it keeps its own."""
    assert decide(shape(8, 2), IDLE, NODE, may_change_cpus="any").after.cpus_per_task < 8
    told = decide(shape(8, 2), IDLE, NODE, may_change_cpus="any", worlds=[worse_by(1, 0)])
    assert told.after == shape(8, 2)


def test_workers_that_must_stay_are_the_reason_where_a_crowd_keeps_the_cpus() -> None:
    """The user can lift it; what a crowd would do to fewer CPUs he cannot."""
    light = from_run(accel=100, wall=0.015, cpu=0.0148)
    crowd, why = [worse_by(1, 0.01)], "its seeds are pinned"
    free = decide(shape(8, 1), light, NODE, may_change_cpus="any", workers_stay=why)
    assert free.after.cpus_per_task < 8
    told = decide(shape(8, 1), light, NODE, may_change_cpus="any", workers_stay=why, worlds=crowd)
    assert (told.after, told.reason) == (shape(8, 1), why)
