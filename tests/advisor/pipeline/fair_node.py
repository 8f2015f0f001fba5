"""A made-up node with a fair scheduler: the referee of what a change of shape does to a training.

Of the ready processes, those that have computed the least come first, each for a slice; one that
wakes up waits for a slice to end where all cores are at work. That is the kernel's rule without its
preemption. Workers fetch two batches ahead, and the training process takes them in order.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

from slurm_ext.core.records import LoaderRun

TICK_S = 0.001
SLICE_S = 0.003
AHEAD = 2  # batches of each worker
PARTS = 4  # of a batch: a worker computes and sleeps for one after the other
WARM, BATCHES, LONGEST_S = 6, 40, 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """A training's costs: seconds of a batch."""

    batch: int
    fetch_cpu_s: float
    fetch_sleep_s: float
    main_cpu_s: float  # receiving it, and starting its step
    step_sleep_s: float  # an accelerator's


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Cores that a job's processes run on, and others' processes that always want one there."""

    cores: int
    others: int


@dataclass(slots=True)
class _Process:
    """One process: its program yields (seconds of CPU, of sleep), or None to wait for another."""

    program: Iterator[tuple[float, float] | None]
    ran_s: float = 0.0
    virtual_s: float = 0.0  # the same as the scheduler counts it
    left_s: float = 0.0  # of what it computes now
    then_s: float = 0.0  # asleep behind that
    wakes_s: float | None = None
    waits: bool = False
    slice_s: float = 0.0
    queued_s: float = 0.0

    def ready(self) -> bool:
        return self.wakes_s is None and not self.waits


@dataclass(slots=True)
class _Clocks:
    """Seconds of the batches behind the warm-up."""

    batches: int = 0
    began_s: float = inf
    fetched: list[tuple[float, float]] = field(default_factory=list)  # wall, queued
    steps: list[tuple[float, float]] = field(default_factory=list)
    main_queued_s: float = 0.0


class Node:
    """One run of a training with so many workers at a place."""

    def __init__(self, costs: Costs, workers: int, place: Place) -> None:
        self.costs, self.workers, self.place = costs, workers, place
        self.now_s, self.clocks = 0.0, _Clocks()
        self._least_s = 0.0  # that a ready process has computed; it never falls
        self._ready = [0] * max(1, workers)  # batches of each worker that wait to be taken
        self._taken = 0
        self._main = _Process(self._train())
        fetching = [self._fetch(number) for number in range(workers)]
        busy = [self._busy() for _ in range(place.others)]
        self._workers = [_Process(one) for one in fetching]
        self._all = [self._main, *self._workers, *map(_Process, busy)]

    def samples_per_s(self) -> float:
        """The rate behind the warm-up."""
        while self.clocks.batches < WARM + BATCHES and self.now_s < LONGEST_S:
            self._tick()
        done = max(1, self.clocks.batches - WARM)
        return (
            self.costs.batch * done / (self.now_s - min(self.clocks.began_s, self.now_s - TICK_S))
        )

    def _tick(self) -> None:
        for one in self._all:
            if one.wakes_s is not None and one.wakes_s <= self.now_s:
                self._wake(one)
            if one.waits or (one.ready() and one.left_s <= 0):
                self._go_on(one)
        ready = [one for one in self._all if one.ready()]
        ready.sort(key=lambda one: (one.slice_s <= 0, one.virtual_s))
        self._least_s = max(self._least_s, min((one.virtual_s for one in ready), default=0.0))
        for one in ready[: self.place.cores]:
            one.slice_s = (one.slice_s if one.slice_s > 0 else SLICE_S) - TICK_S
            one.ran_s += TICK_S
            one.virtual_s += TICK_S
            one.left_s -= TICK_S
        for one in ready[self.place.cores :]:
            one.slice_s = 0.0
            one.queued_s += TICK_S
        self.now_s += TICK_S
        for one in ready[: self.place.cores]:
            if one.left_s <= 0:
                self._go_on(one)

    def _go_on(self, one: _Process) -> None:
        """What it does next: asleep behind what it computed, or another part of its program."""
        if one.then_s > 0:
            one.wakes_s, one.then_s, one.slice_s = self.now_s + one.then_s, 0.0, 0.0
            return
        wanted, rested = next(one.program), one.waits
        one.waits = wanted is None
        if wanted is None:
            one.slice_s = 0.0
            return
        if rested:
            self._wake(one)
        one.left_s += wanted[0]
        one.then_s = wanted[1]
        if one.left_s <= 0 and one.then_s > 0:
            self._go_on(one)

    def _wake(self, one: _Process) -> None:
        """For having rested it is a slice ahead of those that compute, and no more."""
        one.wakes_s, one.virtual_s = None, max(one.virtual_s, self._least_s - SLICE_S)

    def _busy(self) -> Iterator[tuple[float, float]]:
        while True:
            yield 1.0, 0.0

    def _fetch(self, number: int) -> Iterator[tuple[float, float] | None]:
        while True:
            while self._ready[number] >= AHEAD:
                yield None
            yield from self._fetched(self._all[1 + number])
            self._ready[number] += 1

    def _fetched(self, one: _Process) -> Iterator[tuple[float, float]]:
        began_s, queued_s = self.now_s, one.queued_s
        for _ in range(PARTS):
            yield self.costs.fetch_cpu_s / PARTS, self.costs.fetch_sleep_s / PARTS
        self.clocks.fetched.append((self.now_s - began_s, one.queued_s - queued_s))

    def _train(self) -> Iterator[tuple[float, float] | None]:
        clocks, costs = self.clocks, self.costs
        while True:
            if self.workers:
                number = self._taken % self.workers
                while not self._ready[number]:
                    yield None
                self._ready[number] -= 1
            else:
                yield from self._fetched(self._main)
            self._taken += 1
            began_s, queued_s = self.now_s, self._main.queued_s
            yield costs.main_cpu_s, costs.step_sleep_s
            clocks.steps.append((self.now_s - began_s, self._main.queued_s - queued_s))
            clocks.batches += 1
            if clocks.batches == WARM:
                clocks.began_s, clocks.main_queued_s = self.now_s, -self._main.queued_s
            clocks.fetched = clocks.fetched[-BATCHES:]
            clocks.steps = clocks.steps[-BATCHES:]


def run_of(costs: Costs, workers: int, place: Place, *, node_cores: int) -> LoaderRun:
    """What the probe measures of such a run."""
    node = Node(costs, workers, place)
    rate, clocks = node.samples_per_s(), node.clocks
    samples, main = costs.batch, node._main
    done = max(1, clocks.batches - WARM) * samples
    fetched, steps = len(clocks.fetched) * samples, len(clocks.steps) * samples
    busy = sum(one.ran_s for one in (main, *node._workers)) / node.now_s
    return LoaderRun(
        samples_per_s=rate,
        workers=workers,
        cores=float(place.cores),
        batch_size=float(samples),
        accel_samples_per_s=steps / sum(wall for wall, _ in clocks.steps),
        fetch_wall_s=sum(wall for wall, _ in clocks.fetched) / fetched,
        fetch_cpu_s=costs.fetch_cpu_s / samples,
        main_cpu_s=costs.main_cpu_s / samples,
        node_cores=node_cores,
        emulated=True,
        on_cpu=0,
        fetch_queued_s=sum(queued for _, queued in clocks.fetched) / fetched,
        step_queued_s=sum(queued for _, queued in clocks.steps) / steps,
        main_queued_s=max(0.0, clocks.main_queued_s + main.queued_s) / done,
        used_cores=busy,
    )
