"""Room for workers, in numbers: what memory and the place of batches on their way still hold."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.probe.counters import machine
from slurm_ext.probe.workers import room
from slurm_ext.probe.workers.load import Load

BYTES = st.integers(0, 1 << 40)
COUNTS = st.integers(0, 200)


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with 1,000 bytes of memory less than what is held, 600 in /dev/shm, 240 files."""
    monkeypatch.setattr(machine, "room_bytes", lambda held: 1000 - held)
    monkeypatch.setattr(machine, "shared_room_bytes", lambda: 600)
    monkeypatch.setattr(machine, "files_left", lambda: 240)
    monkeypatch.setattr(machine, "tasks_left", lambda: None)
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
    assert room.ceiling(16, own=2, now=2, per_worker=0, private=200, load=Load()) == 2
    assert room.ceiling(16, own=2, now=2, per_worker=100, private=200, load=Load()) == 2 + 4
    assert room.ceiling(16, own=9, now=2, per_worker=400, private=200, load=Load()) == 9


def test_a_growing_pass_is_bound_by_its_batches_too(free: pytest.MonkeyPatch) -> None:
    """Workers grow by a quarter; half of /dev/shm may hold two batches of each worker."""
    assert room.growing(0, own=0, per_worker=80, private=200, load=Load()) == 6
    assert room.growing(1, own=1, per_worker=80, private=200, load=Load(75.0)) == 2
    assert room.growing(2, own=3, per_worker=8, private=200, load=Load(300.0)) == 3


@pytest.mark.parametrize("load", [Load(75.0), Load(files=30.0), Load(50.0, 20.0, prefetch=3)])
def test_the_gate_opens_as_far_as_batches_find_room(free: pytest.MonkeyPatch, load: Load) -> None:
    """Half of /dev/shm, and of the files to be opened, is for the batches of all workers.

    A job would die of a worker more; of those that the user wrote it does not.
    """
    assert room.ceiling(16, own=1, now=1, per_worker=1, private=200, load=load) == 2
    assert room.ceiling(16, own=5, now=5, per_worker=1, private=200, load=load) == 5
    assert room.fitting(16, per_worker=1, private=200) == 16


def test_workers_that_hold_their_batches_by_now_stay(free: pytest.MonkeyPatch) -> None:
    """What is in /dev/shm may be theirs; they go once it would not hold so many once more."""
    assert room.carried(4, Load(75.0)) == 4
    assert room.carried(9, Load(75.0)) == 4
    assert room.carried(1, Load(75.0)) == 2


def test_workers_start_as_far_as_their_threads_may(free: pytest.MonkeyPatch) -> None:
    """Half of the processes and threads that the job may still start, five for each worker."""
    assert room.growing(2, own=2, per_worker=1, private=200, load=Load()) > 64
    free.setattr(machine, "tasks_left", lambda: 30)
    assert room.startable() == 3
    assert room.growing(2, own=2, per_worker=1, private=200, load=Load()) == 2 + 3
    assert room.lent(1, private=200, load=Load()) == 3


def test_the_tightest_cgroup_says_how_many_may_start(tmp_path: Path) -> None:
    """As its own folder says, or one above it; a folder without a limit bounds nothing."""
    job = tmp_path / "cgroup" / "job" / "step"
    job.mkdir(parents=True)
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text("0::/job/step\n")
    limits = ((job, "max", 7), (job.parent, "40", 12))
    for folder, most, now in limits:
        (folder / "pids.max").write_text(f"{most}\n")
        (folder / "pids.current").write_text(f"{now}\n")
    assert machine.tasks_left(str(proc), str(tmp_path / "cgroup")) == 28
    (job.parent / "pids.max").write_text("max\n")
    assert machine.tasks_left(str(proc), str(tmp_path / "cgroup")) is None


def test_lent_workers_wait_for_the_first_measurement(free: pytest.MonkeyPatch) -> None:
    """None before a worker's memory is known; never fewer than none where memory is short."""
    assert room.lent(0, private=200, load=Load()) == 0
    assert room.lent(100, private=200, load=Load()) == 6
    assert room.lent(100, private=200, load=Load(48.0)) == 2
    assert room.lent(100, private=200, load=Load(files=12.0)) == 3
    assert room.lent(100, private=1100, load=Load()) == 0


@given(most=COUNTS, own=COUNTS, now=COUNTS, each=BYTES, private=BYTES)
def test_where_nothing_bounds_memory_the_asked_for_is_had(
    most: int, own: int, now: int, each: int, private: int
) -> None:
    """A machine that tells no limit holds no worker back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "room_bytes", lambda held: None)
        assert room.fitting(most, each, private) == most
        assert room.ceiling(most, own, now, each, private, Load()) == most
