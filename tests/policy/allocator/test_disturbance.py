"""Signs that a lender is worse off than before it lent."""

import pytest

from slurm_ext.policy.allocator.disturbance import LoopWindow, disturbance, usual

BEFORE = LoopWindow(queued_cores=0.2, samples_per_s=100.0)


@pytest.mark.parametrize(
    ("queued", "rate", "batches", "why"),
    [
        (0.2, 100.0, 100, None),
        (0.349, 100.0, 100, None),
        (0.351, 100.0, 100, "its own processes wait for cores"),
        (0.0, 93.6, 100, None),
        (0.0, 93.5, 100, "its rate fell"),
        (0.0, 60.0, 2, None),
        (0.0, 1.0, 0, None),
        (0.0, None, 0, None),
    ],
)
def test_a_lender_is_disturbed_by_its_own_measure(
    queued: float, rate: float | None, batches: int, why: str | None
) -> None:
    """Waiting, or a rate below the floor by more than the few batches of a window can be off."""
    window = LoopWindow(queued_cores=queued, samples_per_s=rate, batches=batches)
    assert disturbance(BEFORE, window, 0.95) == why


def test_a_rate_that_nobody_knows_is_no_sign() -> None:
    """Of a job without one before only the waiting counts."""
    quiet = LoopWindow(queued_cores=0.0)
    assert disturbance(quiet, LoopWindow(queued_cores=0.04, samples_per_s=1.0), 0.95) is None
    assert disturbance(quiet, LoopWindow(queued_cores=0.06), 0.95) is not None


def test_what_is_usual_follows_slowly() -> None:
    """The first window is taken as it is; one without a rate leaves the rate as it was."""
    first = usual(None, BEFORE)
    assert first == BEFORE
    second = usual(first, LoopWindow(queued_cores=0.7, samples_per_s=200.0))
    assert second.queued_cores == pytest.approx(0.35)
    assert second.samples_per_s == pytest.approx(130.0)
    assert usual(second, LoopWindow(queued_cores=0.0)).samples_per_s == second.samples_per_s
    new = usual(LoopWindow(queued_cores=0.0), LoopWindow(queued_cores=0.0, samples_per_s=5.0))
    assert new.samples_per_s == 5.0
