"""What counters' readings mean: pure decisions on wraps, gaps, steps back and multiplexing."""

from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.node.counters.perf.cover import Coverage
from slurm_ext.node.kernel.processes import JobProcess
from slurm_ext.node.kernel.readings import CounterGain, MultiplexedCount, gained, scaled

COUNTS = st.integers(0, 1 << 62)
TICK_S = 0.01


def test_a_counter_that_wraps_goes_on() -> None:
    """RAPL begins anew at its range; a step of more than half the range is no step."""
    assert gained(90.0, 10.0, wraps_at=100.0) == 20.0
    assert gained(30.0, 10.0, wraps_at=100.0) is None
    assert gained(10.0, 30.0, wraps_at=100.0) == 20.0


def test_a_counter_that_goes_backwards_is_not_guessed() -> None:
    """What it did before somebody set it anew is unknown, and counting goes on from there."""
    gain = CounterGain()
    for reading in (100.0, 130.0, 5.0, 15.0):
        gain.see(reading)
    assert (gain.total, gain.unknown) == (40.0, 1)


def test_a_counter_that_vanishes_for_a_while_loses_nothing() -> None:
    """Between two good readings it counted on; one that never answered has no total."""
    gain = CounterGain()
    for reading in (100.0, None, None, 150.0):
        gain.see(reading)
    assert gain.total == 50.0
    never = CounterGain()
    never.see(None)
    assert never.total is None


def test_a_multiplexed_counter_is_scaled_to_its_whole_time() -> None:
    """perf(1)'s own estimate; without a place it never counted, which is not zero."""
    assert scaled(100, 1000, 250) == 400
    assert scaled(100, 1000, 1000) == 100
    assert scaled(0, 1000, 0) is None
    assert scaled(0, 0, 0) == 0.0


@given(COUNTS, COUNTS, COUNTS)
def test_no_reading_gives_less_than_was_counted(value: int, enabled: int, running: int) -> None:
    """An estimate is never below the count, and impossible times give none."""
    found = scaled(value, enabled, running)
    assert found is None or found >= value * (1 - 1e-9)
    if running > enabled:
        assert found is None


# -- who is attached to ---------------------------------------------------------------------------


def _process(parent: int, started_s: float, session: int = 1) -> JobProcess:
    fields = ["0"] * 50
    fields[:4] = ["S", str(parent), "1", str(session)]
    fields[19] = str(round(started_s / TICK_S))
    return JobProcess(fields, (None, None))


def test_children_that_were_there_are_attached_and_later_ones_inherit() -> None:
    """inherit=1 counts a thread's future children only."""
    cover = Coverage()
    members = {10: _process(5, 1.0, session=5), 11: _process(10, 2.0)}
    assert cover.fresh(members, now_s=3.0) == [10, 11]
    members |= {12: _process(10, 4.0), 13: _process(12, 5.0)}
    assert cover.fresh(members, now_s=6.0) == []
    assert cover.needed(10)


def test_a_root_is_needed_until_the_last_it_bore_is_gone() -> None:
    """Its counters hold its children's counts."""
    cover = Coverage()
    cover.fresh({10: _process(5, 1.0)}, now_s=2.0)
    cover.fresh({10: _process(5, 1.0), 12: _process(10, 4.0)}, now_s=5.0)
    cover.fresh({12: _process(10, 4.0)}, now_s=6.0)
    assert cover.needed(10)
    cover.fresh({}, now_s=7.0)
    assert not cover.needed(10)


def test_a_new_steps_task_is_attached_and_an_orphan_is_not_counted_twice() -> None:
    """A task's parent leads its session (slurmstepd); an orphan came from one of ours."""
    cover = Coverage()
    cover.fresh({10: _process(5, 1.0, session=5)}, now_s=2.0)
    members = {
        10: _process(5, 1.0, session=5),
        20: _process(9, 4.0, session=9),  # a second step
        30: _process(1, 4.0, session=5),  # an orphan
    }
    assert cover.fresh(members, now_s=5.0) == [20]


def test_a_pid_used_again_is_another_process() -> None:
    """The start time tells them apart."""
    cover = Coverage()
    cover.fresh({10: _process(5, 1.0, session=5)}, now_s=2.0)
    assert cover.fresh({10: _process(5, 3.0, session=5)}, now_s=4.0) == [10]


def test_a_part_counted_stands_for_its_own_time_alone() -> None:
    """A tenth counted of each step: a job that doubles its rate shows it in that step."""
    estimate = MultiplexedCount()
    estimate.see(10e6, 10e6, 100e6)
    assert estimate.total == 100e6
    estimate.see(30e6, 20e6, 200e6)
    assert estimate.total == 300e6
    estimate.see(30e6, 20e6, 400e6)  # nothing counted: waits for a step that was
    assert estimate.total == 300e6
    estimate.see(5e6, 5e6, 50e6)  # a counter of the sum is gone
    assert estimate.total == 300e6
