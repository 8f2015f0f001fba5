"""The search for a worker count, over made-up loaders with noise."""

import random
from dataclasses import dataclass, replace

from hypothesis import example, given
from hypothesis import strategies as st

from slurm_ext.probe.tuner import autotune
from slurm_ext.probe.tuner.autotune import Block, Rate

MOST = 32


@dataclass(frozen=True)
class Loader:
    """Seconds of a batch: its CPU and its waiting in a worker, the step, the way from a worker."""

    cpu_s: float
    io_s: float
    step_s: float
    ipc_s: float
    cores: float
    storage: float  # batches/s that the storage gives to all workers together

    def batches_per_s(self, workers: int) -> float:
        """The rate that so many workers give, each slower where they outnumber the cores."""
        fetch_s = self.cpu_s + self.io_s
        if workers == 0:
            return min(1 / (fetch_s + self.step_s), self.storage)
        made = min(workers / fetch_s, self.cores / self.cpu_s, self.storage)
        crowd = 1 - 0.002 * max(0, workers - 4 * self.cores)
        return crowd * min(made, 1 / (self.step_s + self.ipc_s))

    def measured(self, workers: int, noise: random.Random, spread: float) -> Rate:
        """As the tuner measures it, block by block until it is known well enough."""
        rate = self.batches_per_s(workers)
        busy_s = self.step_s + (self.ipc_s if workers else 0.0)
        blocks: list[Block] = []
        while not autotune.enough(blocks, None) if blocks else True:
            seconds = 100 / (rate * noise.gauss(1, spread))
            blocks.append(Block(100, seconds, max(0.0, seconds - 100 * busy_s)))
        return autotune.rate(blocks, self.cpu_s + self.io_s, self.cpu_s, 0.0)


LOADERS = st.builds(
    Loader,
    cpu_s=st.floats(0.0005, 0.2),
    io_s=st.sampled_from([0.0, 0.001, 0.02, 0.2]),
    step_s=st.floats(0.001, 0.2),
    ipc_s=st.sampled_from([0.0001, 0.001]),
    cores=st.sampled_from([1.0, 2.0, 4.0, 16.0]),
    storage=st.sampled_from([1e9, 50.0, 5.0]),
)


def _search(loader: Loader, start: int, noise: random.Random, spread: float) -> tuple[int, int]:
    """The count where the search ends, and how many counts it measured."""
    tried: autotune.Tried = {}
    count = start
    for measured in range(1, 4 * autotune.MOST_TRIES):
        tried[count] = loader.measured(count, noise, spread)
        following = autotune.next_count(tried, MOST, loader.cores)
        if following == count:
            return count, measured
        count = following
    raise AssertionError("the search does not end")


@given(loader=LOADERS, start=st.integers(0, 16))
@example(loader=Loader(0.125, 0.02, 0.125, 0.0001, cores=1, storage=1e9), start=0)
@example(loader=Loader(0.1, 0.02, 0.0017, 0.0001, cores=1, storage=1e9), start=0)
def test_without_noise_it_ends_near_the_best_rate(loader: Loader, start: int) -> None:
    """From any start, within a handful of counts, at 0.93 of the best count's rate or more."""
    count, measured = _search(loader, start, random.Random(1), 0.0)
    assert measured <= autotune.MOST_TRIES + 1
    best = max(loader.batches_per_s(c) for c in range(0 if start == 0 else 1, MOST + 1))
    assert loader.batches_per_s(count) >= 0.93 * best


@given(loader=LOADERS, start=st.integers(0, 16), seed=st.integers(0, 1000))
def test_with_noise_it_never_ends_worse_than_it_began(
    loader: Loader, start: int, seed: int
) -> None:
    """Blocks that vary by 4 %: the rate where it stays is that of the start or better."""
    count, _ = _search(loader, start, random.Random(seed), 0.04)
    assert loader.batches_per_s(count) >= 0.90 * loader.batches_per_s(start)


@given(loader=LOADERS)
def test_a_loop_that_does_not_wait_is_left_alone(loader: Loader) -> None:
    """Where the step takes nearly all the time at home, home is the only count measured."""
    idle = replace(loader, step_s=50 * (loader.cpu_s + loader.io_s), storage=1e9)
    assert _search(idle, 0, random.Random(1), 0.0) == (0, 1)


def test_a_clear_loss_ends_a_measurement_early() -> None:
    """Two blocks far below the best rate are enough; two like it are not."""
    slow, like = Block(10, 2.0, 1.0), Block(10, 1.0, 0.1)
    assert autotune.enough([slow, slow], 10.0)
    assert not autotune.enough([like, like], 10.0)


def test_a_stray_block_does_not_count() -> None:
    """The middle one of the blocks tells the rate: one pause among four is nothing."""
    blocks = [Block(10, 1.0, 0.1)] * 4 + [Block(10, 9.0, 8.1)]
    assert autotune.rate(blocks, 0.0, 0.0, 0.0).batches_per_s == 10.0


def test_starting_workers_costs_what_it_costs() -> None:
    """A tenth of a second for each batch halves a rate of ten a second."""
    assert autotune.rate([Block(10, 1.0, 0.0)], 0.0, 0.0, 0.1).batches_per_s == 5.0
