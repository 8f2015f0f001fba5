"""The loader policy by example: starved, fine, bound by memory or site; the lower bound decides."""

from dataclasses import replace

import pytest

from slurm_ext.core.records import (
    ShapeLimits,
)
from slurm_ext.policy.loader import TARGET, decide, most_workers
from tests.policy.loader_cases import NODE, from_run, mean, shape, told_by


def test_a_starved_training_gets_workers() -> None:
    """JPEG decoding in the training process itself: workers, and no cores that may not move."""
    told = decide(shape(2, 0), from_run(accel=1000, wall=0.015, cpu=0.0148), NODE)
    assert told.action == "change"
    assert told.after.cpus_per_task == 2
    assert 2 <= told.after.num_workers <= 4
    assert mean(told.predicted_after) > 1.5 * mean(told.predicted_before)
    assert "waits for data with no workers" in told.reason


def test_slow_storage_gets_more_workers_than_cores() -> None:
    """Workers that sleep need no core each."""
    slow = from_run(accel=1000, wall=0.05, cpu=0.0005, workers=1)
    told = decide(shape(2, 1), slow, NODE)
    assert told.after.num_workers > 8
    assert mean(told.predicted_after) > 3 * mean(told.predicted_before)


def test_a_training_at_its_accelerators_limit_is_left_alone() -> None:
    """Compute-bound and fine: nothing changes, and the reason names the accelerator."""
    told = decide(shape(2, 2), from_run(accel=50, wall=0.005, cpu=0.004, workers=2), NODE)
    assert told.action == "leave"
    assert told.after == told.before
    assert "100% of its maximum; the accelerator is the limit" in told.reason


def test_memory_that_holds_no_more_workers_is_named_as_the_limit() -> None:
    """CPUs are free for a second worker, and memory has no room for it."""
    starved = from_run(accel=1000, wall=0.015, cpu=0.0148, workers=1, cores=4)
    tight = replace(NODE, mem_bytes=3 << 29)
    told = decide(shape(4, 1), starved, tight, worker_rss_bytes=1 << 30)
    assert (told.action, told.after) == ("leave", told.before)
    assert "memory is the limit" in told.reason
    roomy = decide(shape(4, 1), starved, tight, worker_rss_bytes=1 << 20)
    assert roomy.after.num_workers > 1


def test_cpus_that_a_training_cannot_use_are_given_back() -> None:
    """Eight CPUs for a loader that keeps half a core busy: most go back, workers stay."""
    idle = from_run(accel=50, wall=0.01, cpu=0.008, workers=2, cores=8)
    told = decide(shape(8, 2), idle, NODE, may_change_cpus="any")
    assert told.action == "change"
    assert told.after.cpus_per_task <= 2
    assert told.after.num_workers == 2
    assert "CPUs would stay idle" in told.reason
    assert mean(told.predicted_after) >= TARGET * mean(told.predicted_before)


def test_workers_of_a_job_that_is_fine_stay_whatever_its_cpus() -> None:
    """Also where its CPUs are no round number: only what it cannot use is taken."""
    fine = from_run(accel=50, wall=0.01, cpu=0.008, workers=9, cores=18, node=64)
    large = ShapeLimits(max_cpus_per_task=64, node_cores=64)
    told = decide(shape(18, 9), fine, large, may_change_cpus="any")
    assert told.after.cpus_per_task < 18
    assert told.after.num_workers == 9


def test_more_than_the_limits_allow_is_brought_within_them() -> None:
    """A job that asks for more workers than fit gets what fits, where that costs it nothing."""
    asks = from_run(accel=50, wall=0.01, cpu=0.008, workers=90, cores=8)
    told = decide(shape(8, 90), asks, NODE, may_change_cpus="any")
    assert told.after.num_workers <= NODE.max_workers


@pytest.mark.parametrize("may_change", ["never", "grow"])
def test_cpus_are_not_taken_where_the_site_does_not_allow_it(may_change: str) -> None:
    """An explicit request is kept, however idle."""
    idle = from_run(accel=50, wall=0.01, cpu=0.008, workers=2, cores=8)
    assert decide(shape(8, 2), idle, NODE, may_change_cpus=may_change).action == "leave"


def test_cores_grow_where_that_is_allowed_and_needed() -> None:
    """A CPU-bound loader on one core gets more cores and the workers to use them."""
    bound = from_run(accel=400, wall=0.01, cpu=0.0099, workers=1, cores=1)
    assert decide(shape(1, 1), bound, NODE).after.cpus_per_task == 1
    grown = decide(shape(1, 1), bound, NODE, may_change_cpus="grow")
    assert 3 <= grown.after.cpus_per_task <= 8
    assert mean(grown.predicted_after) > 2 * mean(grown.predicted_before)


def test_memory_bounds_the_workers() -> None:
    """Workers times their resident size fit into the job's memory."""
    limits = ShapeLimits(max_cpus_per_task=8, node_cores=8, mem_bytes=1 << 30)
    slow = from_run(accel=1000, wall=0.05, cpu=0.0005, workers=1)
    told = decide(shape(2, 1), slow, limits, worker_rss_bytes=300 << 20)
    assert told.after.num_workers == 3


def test_a_worker_that_does_not_fit_leaves_loading_in_the_training_process() -> None:
    """Where not even one worker fits, none is started."""
    limits = ShapeLimits(max_cpus_per_task=8, node_cores=8, mem_bytes=1 << 28)
    assert most_workers(limits, 1 << 29) == 0
    told = decide(
        shape(2, 0), from_run(accel=1000, wall=0.01, cpu=0.01), limits, worker_rss_bytes=1 << 29
    )
    assert told.action == "leave"


def test_a_small_gain_changes_nothing() -> None:
    """Below the minimum gain a job is not touched, and the user is told why."""
    near = from_run(accel=100, wall=0.0005, cpu=0.0005)
    told = decide(shape(2, 0), near, NODE, min_gain=0.5)
    assert told.action == "leave"


def test_the_bound_decides_and_not_the_expectation() -> None:
    """A shape that might be fast and might be slow loses to one that surely is good."""
    risky, sure = shape(1, 2), shape(1, 1)
    table = told_by({shape(1, 0): (40, 50), risky: (45, 200), sure: (90, 100)})
    assert decide(shape(1, 0), table, NODE).after == sure


def test_a_better_bound_does_not_buy_a_worse_expectation() -> None:
    """A job that is uncertain but probably fast is not moved to what is surely slower."""
    table = told_by({shape(1, 4): (50, 100), shape(1, 2): (80, 85)})
    told = decide(shape(1, 4), table, ShapeLimits(max_cpus_per_task=1, node_cores=1, max_workers=4))
    assert told.action == "leave"


@pytest.mark.parametrize("memory", [None, 1])
def test_no_workers_are_no_answer_for_a_job_that_has_some(memory: int | None) -> None:
    """However well it would do without: its loader keeps one, also where memory holds none."""
    table = told_by({shape(1, 0): (90, 100), shape(1, 1): (60, 70), shape(1, 4): (40, 50)})
    limits = replace(NODE, mem_bytes=memory)
    told = decide(shape(1, 4), table, limits, worker_rss_bytes=2)
    assert (told.action, told.after) == ("change", shape(1, 1))
    assert decide(shape(1, 0), table, limits, worker_rss_bytes=2).after == shape(1, 0)
