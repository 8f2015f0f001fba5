"""The tuner's loop over made-up passes: who holds it, what wakes it, what it never does."""

# ruff: noqa: D102 - named as what a tuner touches of the probe

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.probe.stalls.fetch_times import FetchTimes
from slurm_ext.probe.tuner.tuning import Tuner

MOST = 16


class Loader:
    """A pass and its knob in one: batches come as fast as a made-up loader gives them.

    `fetch_s`, `step_s`: seconds of a batch; `cores`: how many fetches run at once; `robbed_s`: what
    each batch waits for a core in the training; `slow_s`: what one fetch in ten takes. Time is
    the tuner's own clock.
    """

    def __init__(self, own: int, fetch_s: float, step_s: float, cores: float, seed: int) -> None:
        self.now, self.noise = 0.0, random.Random(seed)
        self.fetch_s, self.step_each_s, self.cores = fetch_s, step_s, cores
        self.open, self.limit, self.by_file, self.knob = own, MOST, False, self
        self.lent = 0
        self.batches, self.wait_s, self.step_s, self.made = 0, 0.0, 0.0, 0
        self.wall_s, self.cpu_s, self.queued_s, self.times = 0.0, 0.0, 0.0, FetchTimes()
        self.robbed_s, self.slow_s = 0.0, 0.0
        self.tune_at, self.total_s, self.latest_s = 1 << 62, 0.0, 0.0
        self.meter: Any = self
        self.starts = self
        self.pass_batches = 1 << 30
        self.moves: list[int] = []
        self.tuner = Tuner(own, own, cores, clock=lambda: self.now)
        self.tuner.begin(self, self)  # type: ignore[arg-type]  # it has what a tuner touches

    def rate(self, workers: int) -> float:
        """Batches a second."""
        if workers == 0:
            return 1 / (self.fetch_s + self.step_each_s)
        return min(1 / self.step_each_s, min(workers + self.lent, self.cores) / self.fetch_s)

    def run(self, seconds: float) -> None:
        """Let it train for so long."""
        ends = self.now + seconds
        while self.now < ends:
            took_s = self.noise.gauss(1, 0.02) / self.rate(self.open) + self.robbed_s
            self.now += took_s
            self.step_s += self.step_each_s
            self.wait_s += max(0.0, took_s - self.step_each_s)
            self.batches += 1
            self._fetch()
            if self.batches >= self.tune_at:
                self.tune_at = 1 << 62
                self.tuner.tick(self, self, self.now)  # type: ignore[arg-type]  # as above

    def _fetch(self) -> None:
        """One more was made: workers beyond the cores take turns."""
        wall_s = self.fetch_s * max(1.0, (self.open + self.lent) / self.cores)
        self.cpu_s += self.fetch_s
        self.wall_s += wall_s
        self.queued_s += wall_s - self.fetch_s
        self.times.add(self.slow_s if self.slow_s and self.batches % 10 == 0 else wall_s, 1)

    # What a tuner touches of a pass and of its knob.

    def workers_now(self) -> int:
        return self.open

    def in_flight(self) -> int:
        return 2 * self.open

    def fetched(self) -> tuple[float, ...]:
        return (0.0, float(self.batches), self.wall_s, self.cpu_s, 0.0, 0.0, self.queued_s)

    def fetch_times(self) -> FetchTimes:
        return FetchTimes() + self.times

    def ruled(self, _: Any) -> bool:
        return self.by_file

    def follow(self, _: Any) -> None:
        pass

    def turn(self, _: Any) -> bool:
        return True

    def release(self, _: Any) -> None:
        pass

    def room(self, _: Any) -> int:
        return MOST

    def ask(self, _: Any, count: int) -> None:
        if count != self.open:
            self.moves.append(count)
        self.open = min(count, self.limit)


LOADERS = st.builds(
    Loader,
    own=st.integers(0, 8),
    fetch_s=st.floats(0.005, 0.2),
    step_s=st.floats(0.005, 0.1),
    cores=st.sampled_from([2.0, 4.0, 64.0]),
    seed=st.integers(0, 1000),
)


@given(loader=LOADERS)
def test_it_settles_near_the_best_and_then_is_quiet(loader: Loader) -> None:
    """Within 20 s of measuring or 200 batches, at 0.93 of the best rate or more; no move after."""
    loader.run(120)
    assert loader.tuner.settled
    assert loader.tuner.settled_after is not None
    seconds, batches = loader.tuner.settled_after
    assert seconds <= 25 or batches <= 220
    reachable = range(0 if loader.tuner.own == 0 else 1, MOST + 1)
    assert loader.rate(loader.open) >= 0.93 * max(map(loader.rate, reachable))
    moves = len(loader.moves)
    loader.run(60)
    assert len(loader.moves) == moves


def test_a_new_phase_wakes_it() -> None:
    """Batches that take four times as long from some moment on get more workers."""
    loader = Loader(own=1, fetch_s=0.02, step_s=0.02, cores=64, seed=1)
    loader.run(30)
    before = loader.open
    loader.fetch_s = 0.08
    loader.run(60)
    assert before <= 2
    assert loader.open >= 4


def test_a_loop_that_is_robbed_of_its_core_gets_no_more_workers() -> None:
    """Eight idle workers, and a fifth of the time is waiting: fewer may do, never more."""
    loader = Loader(own=8, fetch_s=0.005, step_s=0.02, cores=64, seed=1)
    loader.robbed_s = 0.005
    loader.run(60)
    assert loader.tuner.tried[8].wait > 0.15
    assert max(loader.tuner.tried) == 8


def test_workers_that_make_some_batches_slowly_get_company() -> None:
    """One fetch in ten takes longer than the batches under way last: more are tried."""
    loader = Loader(own=4, fetch_s=0.005, step_s=0.02, cores=64, seed=1)
    loader.robbed_s, loader.slow_s = 0.005, 0.2
    loader.run(60)
    assert max(loader.tuner.tried) > 4


def test_while_the_file_decides_it_only_waits() -> None:
    """No move by the tuner; it goes on once the file is gone."""
    loader = Loader(own=1, fetch_s=0.08, step_s=0.02, cores=64, seed=1)
    loader.by_file, loader.open = True, 2
    loader.run(30)
    assert (loader.moves, loader.tuner.tried) == ([], {})
    loader.by_file = False
    loader.open = 1
    loader.run(30)
    assert loader.open >= 4


def test_what_memory_does_not_open_is_not_waited_for() -> None:
    """A gate that stays at three: three is what can be had, and the search ends there."""
    loader = Loader(own=1, fetch_s=0.16, step_s=0.02, cores=64, seed=1)
    loader.limit = 3
    loader.run(90)
    assert (loader.open, loader.tuner.settled) == (3, True)
    assert loader.tuner.count == 3


def test_a_block_with_other_lent_workers_is_void() -> None:
    """Lent ones come and go every tenth of a second: nothing is concluded from it."""
    loader = Loader(own=1, fetch_s=0.08, step_s=0.02, cores=64, seed=1)
    for turn in range(200):
        loader.lent = turn % 2
        loader.run(0.1)
    assert loader.tuner.tried == {}


def test_under_a_constant_loan_nothing_is_concluded() -> None:
    """A lent worker at work for minutes is not taken for one of the loader's own.

    The count waits with what it is; once the loan is over the search finds what it finds alone.
    """
    loader = Loader(own=1, fetch_s=0.08, step_s=0.02, cores=64, seed=1)
    loader.lent = 1
    loader.run(60)
    assert (loader.tuner.tried, loader.open, loader.tuner.settled) == ({}, 1, False)
    loader.lent = 0
    loader.run(60)
    alone = Loader(own=1, fetch_s=0.08, step_s=0.02, cores=64, seed=1)
    alone.run(60)
    assert (loader.open, loader.tuner.settled) == (alone.open, True)


def test_a_loan_in_the_middle_of_a_search_goes_back_to_the_best_count() -> None:
    """No count that is merely tried is kept for as long as a loan lasts."""
    loader = Loader(own=1, fetch_s=0.08, step_s=0.02, cores=2, seed=1)
    while loader.open == 1 or loader.open in loader.tuner.tried:
        loader.run(0.1)
    loader.lent = 1
    loader.run(5)
    assert loader.open in loader.tuner.tried


def test_a_loan_wakes_no_settled_search() -> None:
    """The rate goes up by the loan and down with its end: the count and its rates stay."""
    loader = Loader(own=1, fetch_s=0.08, step_s=0.02, cores=2, seed=1)
    loader.run(60)
    assert loader.tuner.settled
    count, tried = loader.open, dict(loader.tuner.tried)
    loader.cores, loader.lent = 4, 2
    loader.run(60)
    loader.cores, loader.lent = 2, 0
    loader.run(5)
    assert (loader.open, loader.tuner.tried, loader.tuner.settled) == (count, tried, True)
