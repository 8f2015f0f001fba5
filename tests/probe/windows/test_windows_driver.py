"""The windows of a made-up training: its data stall comes back, whatever its loops look like."""

import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from slurm_ext.probe.windows import driver as driver_module
from slurm_ext.probe.windows import plan, ranks
from slurm_ext.probe.windows.driver import Surroundings, WindowDriver, WindowLimits
from slurm_ext.probe.windows.plan import CACHED, NORMAL
from slurm_ext.probe.windows.ranks import RankAgreement, SyncSwitch
from slurm_ext.probe.windows.tracer import StepTracer

MADE_S, COMPUTE_S = 0.08, 0.01  # of a worker for a batch, of a step
Original = Callable[[Any], Any]


class Clock:
    """The time of the made-up training."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """The time."""
        return self.now


class Pass:
    """One pass of a loader with workers that make batches ahead, as torch's iterator does."""

    _prefetch_factor = 2

    def __init__(self, clock: Clock, sampler: range, workers: int = 2, made_s: float = MADE_S):
        self._index_sampler, self._num_workers = sampler, workers
        self._clock, self._made_s = clock, made_s
        self._free = [clock.now] * workers
        self._ready: list[float] = []
        self._handed = 0
        for _ in range(workers * self._prefetch_factor):
            self._ask()

    def _ask(self) -> None:
        worker = len(self._ready) % self._num_workers
        self._free[worker] = max(self._free[worker], self._clock.now) + self._made_s
        self._ready.append(self._free[worker])

    def __next__(self) -> Any:
        if self._handed >= len(self._index_sampler):
            raise StopIteration
        self._clock.now = max(self._clock.now, self._ready[self._handed])
        self._handed += 1
        self._ask()
        return self._handed


class Run:
    """A training under the driver, with a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **limits: Any) -> None:
        self.clock, self.handed = Clock(), 0
        self.written = 0
        monkeypatch.setattr(driver_module, "BatchCache", _Numbers)
        around = Surroundings(
            clock=self.clock,
            synchronise=lambda: None,
            agreement=RankAgreement,
            gradient_sync=SyncSwitch,
            tracer=StepTracer("/nowhere"),
            bytes_of=lambda _: 0,
            changed=self._changed,
            leave=self._leave,
        )
        known = {"steps": 400, "seconds": 180.0, "seed": 0}
        self.driver = WindowDriver(WindowLimits(**{**known, **limits}), around)

    def _changed(self) -> None:
        self.written += 1

    def _leave(self) -> None:
        raise SystemExit(0)

    def epoch(self, batches: Pass, compute_s: float = COMPUTE_S) -> Iterator[int]:
        """The user's loop: a step behind each batch."""
        while True:
            try:
                self.driver.next(batches, Pass.__next__)
            except StopIteration:
                return
            self.clock.now += compute_s
            self.driver.steps += 1
            yield 0

    def means(self) -> dict[str, float]:
        """Mean step of each kind of window."""
        found = self.driver.by_kind()
        return {kind: sum(map(sum, ws)) / sum(map(len, ws)) for kind, ws in found.items()}


class _Numbers:
    """A cache of batches that are numbers."""

    def __init__(self, _: Any) -> None:
        self.kept: list[int] = []

    def __len__(self) -> int:
        return len(self.kept)

    def keep(self, batch: int) -> None:
        """As the real one."""
        self.kept.append(batch)

    def hand(self) -> int:
        """As the real one."""
        return self.kept[-1]


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> Run:
    """A training with the usual limits."""
    return Run(monkeypatch)


def test_a_known_data_stall_comes_back(training: Run) -> None:
    """Two workers, 80 ms a batch, 10 ms a step: 40 ms between batches, 30 of them waiting."""
    with pytest.raises(SystemExit):
        for _ in training.epoch(Pass(training.clock, range(10_000))):
            pass
    means = training.means()
    assert means[CACHED] == pytest.approx(COMPUTE_S)
    assert means[NORMAL] == pytest.approx(MADE_S / 2, rel=0.03)
    assert training.driver.ended == "precise"
    assert training.driver.why_not is None


def test_a_queue_that_filled_meanwhile_does_not_count(
    training: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nothing dropped, normal windows begin with batches that were made under cached ones."""
    monkeypatch.setattr(plan, "dropped_steps", lambda *_: 1)
    with pytest.raises(SystemExit):
        for _ in training.epoch(Pass(training.clock, range(10_000))):
            pass
    assert training.means()[NORMAL] < 0.9 * MADE_S / 2


def test_passes_and_validations_between_steps_do_not_count(training: Run) -> None:
    """Short epochs, each with a validation behind it and one in its middle."""
    with pytest.raises(SystemExit):
        train_in_epochs(training, range(60), range(6))
    means = training.means()
    assert means[NORMAL] == pytest.approx(MADE_S / 2, rel=0.05)
    assert means[CACHED] == pytest.approx(COMPUTE_S)


def train_in_epochs(training: Run, sampler: range, held_out: range) -> None:
    """Passes with a validation in the middle and one at the end."""
    for _ in range(100):
        for number, _ in enumerate(training.epoch(Pass(training.clock, sampler))):
            if number == 30:
                validate(training, held_out)
        validate(training, held_out)


def validate(training: Run, held_out: range) -> None:
    """Batches without a step."""
    batches = Pass(training.clock, held_out)
    while True:
        try:
            training.driver.next(batches, Pass.__next__)
        except StopIteration:
            return
        training.clock.now += 0.5


def test_a_loader_without_steps_is_never_given_cached_batches(training: Run) -> None:
    """Every batch of a validation is its own, in order."""
    batches = Pass(training.clock, range(9))
    handed = [training.driver.next(batches, Pass.__next__) for _ in range(9)]
    assert handed == list(range(1, 10))
    assert training.driver.places.lead is None
    assert training.driver.elapsed_s() == 0


def test_too_few_steps_are_told_with_what_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run ends at once: nothing that it could still do is worth its time."""
    training = Run(monkeypatch, steps=30)
    with pytest.raises(SystemExit):
        for _ in training.epoch(Pass(training.clock, range(10_000))):
            pass
    assert training.driver.why_not is not None
    assert "--steps" in training.driver.why_not
    assert training.driver.windows == []


def test_seconds_end_it_at_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise that never becomes precise runs until the next round would not fit."""
    training = Run(monkeypatch, seconds=8.0)
    batches = Pass(training.clock, range(10_000), made_s=0.04)
    with pytest.raises(SystemExit):
        train_noisily(training, batches)
    assert training.driver.ended in ("seconds", "steps")
    assert training.driver.elapsed_s() <= 8.0


def train_noisily(training: Run, batches: Pass) -> None:
    """Now and then a step takes long."""
    for number, _ in enumerate(training.epoch(batches)):
        training.clock.now += 0.03 * (number % 7 == 0)


def test_a_fault_of_ours_ends_the_run(training: Run) -> None:
    """It is written down; the training does not go on unguarded by windows for hours."""
    batches = Pass(training.clock, range(9))
    del batches._index_sampler
    with pytest.raises(SystemExit):
        training.driver.next(batches, Pass.__next__)
    assert training.driver.ended == "fault"
    assert training.driver.why_not is not None
    assert "_index_sampler" in training.driver.why_not


class Store:
    """A store that two ranks meet in, each of which waits for the other."""

    def __init__(self) -> None:
        self.known: dict[str, bytes] = {}

    def set(self, key: str, value: str) -> None:
        """As torch's."""
        self.known[key] = value.encode()

    def get(self, key: str) -> bytes:
        """As torch's."""
        return self.known[key]

    def wait(self, keys: list[str], _: object) -> None:
        """As torch's, without patience."""
        if not set(keys) <= set(self.known):
            raise TimeoutError(keys)


def test_ranks_go_by_one_word() -> None:
    """Rank 0 chooses from all words; every rank hears the same."""
    store = Store()
    store.set("dlqueue/profile/1/1", "7")
    assert RankAgreement(store, 0, 2).agree(3, max) == 7
    other = RankAgreement(store, 1, 2)
    assert other.agree(7, lambda _: pytest.fail("rank 1 does not choose")) == 7
    assert RankAgreement(None, 0, 1).agree(3, max) == 3


def test_one_rank_has_no_communication() -> None:
    """The reason is told, and the switch does nothing."""
    sync = SyncSwitch(1)
    sync.set(False)
    assert sync.why_not is not None
    assert sync.modules == []


def test_gradients_are_synchronised_again_at_the_end() -> None:
    """The switch is the one that `no_sync` turns."""
    module = SimpleNamespace(require_backward_grad_sync=True)
    sync = SyncSwitch(1)
    sync.modules = [module]
    sync.set(False)
    assert not module.require_backward_grad_sync
    sync.set(True)
    assert module.require_backward_grad_sync


def test_sharded_models_are_not_left_unsynchronised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without synchronisation each rank of FSDP would hold whole gradients; the reason is told."""

    class FullyShardedDataParallel:
        """By the name and the module that torch has it in."""

    module, name = ranks._FSDP[0]
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(**{name: FullyShardedDataParallel}))
    model = FullyShardedDataParallel()
    sync = SyncSwitch(2)
    assert sync.modules == []
    assert sync.why_not is not None
    assert "FSDP" in sync.why_not
    del model
