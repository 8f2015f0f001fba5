"""Waiting for data, split by what the workers' seconds were spent on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.core.stalls.data_stall import WorkerCosts, soft_max, split_wait

SECONDS = st.floats(0.0, 10.0)
WORKERS = st.one_of(st.just(0.0), st.floats(0.5, 32.0))


def costs(cpu_s: float, queued_s: float, blocked_s: float, workers: float) -> WorkerCosts:
    """Of one batch."""
    return WorkerCosts(cpu_s=cpu_s, queued_s=queued_s, blocked_s=blocked_s, workers=workers)


@given(SECONDS, SECONDS, SECONDS, SECONDS, SECONDS, WORKERS)
def test_the_parts_add_up_to_the_wait(
    wait_s: float, step_s: float, cpu_s: float, queued_s: float, blocked_s: float, workers: float
) -> None:
    """No part is below zero, whatever was measured."""
    stall = split_wait(wait_s, step_s, costs(cpu_s, queued_s, blocked_s, workers))
    parts = (stall.fetch_s, stall.cores_s, stall.preparation_s, stall.unexplained_s)
    assert min(parts) >= 0
    assert sum(parts) == pytest.approx(wait_s, rel=1e-6, abs=1e-6)


@given(SECONDS, SECONDS, SECONDS, SECONDS, SECONDS, SECONDS, WORKERS)
def test_more_waiting_for_storage_is_more_fetching(
    wait_s: float, step_s: float, cpu: float, queued: float, blocked: float, more: float, n: float
) -> None:
    """Of the same wait, workers that were blocked longer explain no less of it."""
    before = split_wait(wait_s, step_s, costs(cpu, queued, blocked, n)).fetch_s
    after = split_wait(wait_s, step_s, costs(cpu, queued, blocked + more, n)).fetch_s
    assert after >= before - 1e-6


@given(SECONDS, SECONDS, SECONDS, SECONDS, SECONDS, SECONDS, WORKERS)
def test_a_longer_wait_is_no_less_preparing(
    wait_s: float, step_s: float, cpu: float, queued: float, blocked: float, more: float, n: float
) -> None:
    """Of the same costs."""
    before = split_wait(wait_s, step_s, costs(cpu, queued, blocked, n))
    after = split_wait(wait_s + more, step_s, costs(cpu, queued, blocked, n))
    assert after.preparation_s >= before.preparation_s - 1e-6


@pytest.mark.parametrize(
    ("wait_s", "given_costs", "expected"),
    [
        # One worker that sleeps 280 ms for a step of 200: the wait is storage's.
        (0.08, costs(0.0, 0.0, 0.28, 1), (0.08, 0.0, 0.0)),
        # Six workers on one core, 40 ms of CPU each: with cores enough there is no wait.
        (0.04, costs(0.04, 1.4, 0.0, 6), (0.0, 0.04, 0.0)),
        (0.1, costs(0.3, 0.0, 0.0, 1), (0.0, 0.0, 0.1)),
        # Without the storage the CPU alone still takes 250 ms.
        (0.15, costs(0.25, 0.0, 0.1, 1), (0.1, 0.0, 0.05)),
        # At home nothing is hidden behind the step.
        (0.09, costs(0.03, 0.02, 0.04, 0), (0.04, 0.02, 0.03)),
    ],
)
def test_what_would_go_away_with_each_cost(
    wait_s: float, given_costs: WorkerCosts, expected: tuple[float, float, float]
) -> None:
    """Storage first, then cores, then preparing, for a step of 200 ms."""
    stall = split_wait(wait_s, 0.2, given_costs)
    assert (stall.fetch_s, stall.cores_s, stall.preparation_s) == pytest.approx(expected, abs=1e-4)


def test_a_small_wait_of_workers_that_keep_up_is_theirs() -> None:
    """They are as fast as the step in the mean, so it is by chance, and by their costs."""
    stall = split_wait(0.01, 0.2, costs(0.02, 0.0, 0.17, 1))
    assert stall.fetch_s == pytest.approx(0.01, abs=1e-3)
    assert stall.unexplained_s == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    ("step_s", "wait_s", "given_costs", "fetch_s", "preparation_s"),
    [
        (0.0977, 0.1214, costs(0.120, 0.0, 0.096, 1), 0.0970, 0.0222),
        (0.0831, 0.1615, costs(0.1327, 0.0, 0.1104, 1), 0.1104, 0.0495),
    ],
)
def test_workers_far_behind_do_not_wait_by_chance(
    step_s: float, wait_s: float, given_costs: WorkerCosts, fetch_s: float, preparation_s: float
) -> None:
    """Sleeping, then spinning samples, measured: two per cent more are handing batches over."""
    stall = split_wait(wait_s, step_s, given_costs)
    assert stall.fetch_s == pytest.approx(fetch_s, rel=0.03)
    assert stall.preparation_s == pytest.approx(preparation_s, rel=0.1)


def test_a_wait_longer_than_the_workers_time_is_not_theirs() -> None:
    """Such as a batch that takes long to arrive."""
    stall = split_wait(1.0, 0.2, costs(0.1, 0.0, 0.1, 1))
    assert stall.unexplained_s == pytest.approx(0.8, abs=1e-6)
    assert split_wait(1.0, 0.2, costs(0, 0, 0, 4)).unexplained_s == 1.0


@given(SECONDS, SECONDS, st.floats(0.0, 1.0))
def test_the_soft_maximum_lies_between_the_maximum_and_the_sum(
    one: float, other: float, softness: float
) -> None:
    """And is the same whichever comes first."""
    found = soft_max(one, other, softness)
    assert max(one, other) <= found <= (one + other) * (1 + 1e-9)
    assert found == soft_max(other, one, softness)
