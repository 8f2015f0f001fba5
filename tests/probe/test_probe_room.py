"""Room for workers, in numbers: what memory and the place of batches on their way still hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.probe.counters import machine
from slurm_ext.probe.workers import room

BYTES = st.integers(0, 1 << 40)
COUNTS = st.integers(0, 200)


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with 1,000 bytes of memory less than what is held, and 600 in /dev/shm."""
    monkeypatch.setattr(machine, "room_bytes", lambda held: 1000 - held)
    monkeypatch.setattr(machine, "shared_room_bytes", lambda: 600)
    return monkeypatch


def test_workers_fit_into_four_fifths_of_the_room(free: pytest.MonkeyPatch) -> None:
    """By a measured worker's memory; before one was, each may become as large as the training."""
    assert room.fitting(16, per_worker=100, private=200) == 6  # 800 left, 640 to be used
    assert room.fitting(16, per_worker=0, private=200) == 3
    assert room.fitting(2, per_worker=100, private=200) == 2


def test_the_gate_opens_beyond_the_users_own_once_one_worker_is_known(
    free: pytest.MonkeyPatch,
) -> None:
    """Those that work count as held; what the user asked for is never taken."""
    assert room.ceiling(16, own=2, now=2, per_worker=0, private=200) == 2
    assert room.ceiling(16, own=2, now=2, per_worker=100, private=200) == 2 + 4
    assert room.ceiling(16, own=9, now=2, per_worker=400, private=200) == 9


def test_a_growing_pass_is_bound_by_its_batches_too(free: pytest.MonkeyPatch) -> None:
    """Workers grow by a quarter; half of /dev/shm may hold two batches of each new worker."""
    assert room.growing(0, per_worker=80, private=200, batch_bytes=0.0) == 6
    assert room.growing(1, per_worker=80, private=200, batch_bytes=75.0) == 1 + 2


def test_lent_workers_wait_for_the_first_measurement(free: pytest.MonkeyPatch) -> None:
    """None before a worker's memory is known; never fewer than none where memory is short."""
    assert room.lent(0, private=200, batch_bytes=0.0, prefetch=2) == 0
    assert room.lent(100, private=200, batch_bytes=0.0, prefetch=2) == 6
    assert room.lent(100, private=200, batch_bytes=48.0, prefetch=2) == 2
    assert room.lent(100, private=1100, batch_bytes=0.0, prefetch=2) == 0


@given(most=COUNTS, own=COUNTS, now=COUNTS, each=BYTES, private=BYTES)
def test_where_nothing_bounds_memory_the_asked_for_is_had(
    most: int, own: int, now: int, each: int, private: int
) -> None:
    """A machine that tells no limit holds no worker back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "room_bytes", lambda held: None)
        assert room.fitting(most, each, private) == most
        assert room.ceiling(most, own, now, each, private) == most
