"""In a worker of a loader with pinned seeds: batches that any worker may make, and their check.

Torch seeds each of the user's N workers, and batch i is worker i mod N's. The first fetches of each
worker are watched; later ones may be of batches that another worker would make as written, and are
refused where they draw. The only worker of a loader is watched whatever its seeds are.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Callable, Iterator

from ..inspection import guarding
from ..inspection.dataset_inspection import DatasetInspection
from ..inspection.loop_changes import Snapshot
from ..inspection.random_state import random_state, same_state, set_random_state
from .held import Inherited

TRIAL_FETCHES = 2
NOT_YET, CLEAN, DRAWS, KEEPS_STATE = 0.0, 1.0, 2.0, 3.0


class AnyWorkers:
    """An index whose batch any worker may make; `worker` would make it as written."""

    __slots__ = ("index", "worker")

    def __init__(self, index: Any, worker: int) -> None:
        self.index, self.worker = index, worker

    def __reduce__(self) -> Any:
        return type(self), (self.index, self.worker)

    def made(self, make: Callable[[Any], Any]) -> Any:
        """The batch; UnfitError, and the random states of before, where making it drew."""
        before = random_state()
        try:
            with _seen_as(self.worker):
                held = random_state()
                data = make(self.index)
                drew = not same_state(held, random_state())
        finally:
            set_random_state(before)
        if drew:
            raise guarding.UnfitError(guarding.DREW)
        return data


@contextlib.contextmanager
def _seen_as(number: int) -> Iterator[None]:
    """Show the dataset the worker that it would be in: its number and torch's first seed."""
    module: Any = sys.modules["torch.utils.data._utils.worker"]
    own = module._worker_info
    if own.id == number:
        yield
        return
    seed = own.seed - own.id + number
    module._worker_info = module.WorkerInfo(
        id=number, num_workers=own.num_workers, seed=seed, dataset=own.dataset
    )
    torch = sys.modules["torch"]
    torch.set_rng_state(torch.Generator().manual_seed(seed).get_state())
    try:
        yield
    finally:
        module._worker_info = own


class Watch(guarding.Guard):
    """Notes what a worker's first fetches do; refuses nothing.

    `closely`: to the dataset, too; `draws`: random numbers matter.
    """

    refuses = False

    def __init__(self, closely: bool, draws: bool = True) -> None:
        super().__init__(seeded=draws)
        self.closely = closely
        self.fetches = 0
        self._held: Inherited | None = None  # before the first fetch

    def before(self, fetcher: Any) -> Any:
        """Random states, and before the last fetch of the trial the dataset's."""
        if self.fetches >= TRIAL_FETCHES or self.finding > CLEAN:
            return None
        if self.closely and not self.fetches:
            self._held = _held(fetcher.dataset)
        last = self.closely and self.fetches == TRIAL_FETCHES - 1
        dataset = fetcher.dataset
        random = random_state() if self.seeded else None
        return dataset if last else None, _Look(dataset) if last else None, random

    def after(self, state: Any, data: Any) -> None:
        """Compares, and publishes what was found once the trial is over."""
        del data
        if state is None:
            return
        dataset, look, random = state
        self.fetches += 1
        if self.seeded and not same_state(random, random_state()):
            self.finding = DRAWS
        elif dataset is not None and (look.changed() or self._held is None or self._held.moved()):
            self.finding = KEEPS_STATE
        elif self.fetches == TRIAL_FETCHES:
            self.finding = CLEAN

    def started(self, init: Callable[[int], Any], number: int) -> None:
        """Run the user's `worker_init_fn`; one that changes the dataset ties it to its worker."""
        dataset = vars(sys.modules["torch.utils.data._utils.worker"])["_worker_info"].dataset
        before = _signature(dataset, self.closely)
        init(number)
        if _signature(dataset, self.closely) != before:
            self.finding = KEEPS_STATE


class _Look:
    """The dataset, and what its code reads, before a fetch."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._signature = _signature(dataset, True)
        try:
            self._snapshot: Snapshot | None = Snapshot(dataset, closely=True)
        except Exception:  # objects of another kind
            self._snapshot = None

    def changed(self) -> bool:
        """True if the fetch changed it, or if it cannot be looked at."""
        if _signature(self._dataset, True) != self._signature or self._snapshot is None:
            return True
        try:
            return self._snapshot.changed()
        except Exception:  # arrays that are not the same ones
            return True


def _held(dataset: Any) -> Inherited | None:
    """Its files and iterators; None where it cannot be looked through."""
    try:
        return Inherited(dataset)
    except Exception:  # objects of another kind
        return None


def _signature(dataset: Any, wanted: bool) -> Any:
    """The dataset's state; where it cannot be looked through, something that equals nothing."""
    if not wanted:
        return None
    try:
        return DatasetInspection(dataset).signature
    except Exception:
        return object()


class Init:
    """A `worker_init_fn` that is watched."""

    def __init__(self, watch: Watch, init: Callable[[int], Any]) -> None:
        self.watch, self.init = watch, init

    def __call__(self, number: int) -> None:
        """As torch calls it, in the worker."""
        self.watch.started(self.init, number)
