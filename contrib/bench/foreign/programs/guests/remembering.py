"""Data sets that remember or draw by themselves: `python -m ...guests.remembering NAME`."""

import collections
import random
import weakref

import numpy as np
import torch
from torch.utils.data import DataLoader, get_worker_info

from contrib.bench.foreign.programs.data import Images
from contrib.bench.foreign.programs.feeding import Trainer
from contrib.bench.foreign.programs.guests import fit, start

_RNG = np.random.default_rng(7)
_SEEN = []
_CALLS = 0


class _Counted(Images):
    """Counts in a dict how often each class was asked for; the loop reads it."""

    def __init__(self, length):
        super().__init__(length)
        self.hits = dict.fromkeys(range(10), 0)

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        self.hits[label] += 1
        return image, label


def hits_after_the_epoch():
    """The loop reads the data set's counts after each epoch."""
    data = _Counted(480)
    loader = DataLoader(data, batch_size=16, shuffle=True)
    fit(loader, end=lambda trainer, _: trainer.truth.saw(data.hits))


class _Table(Images):
    def __init__(self, length):
        super().__init__(length)
        self.times = np.zeros(length, dtype=np.int64)

    def __getitem__(self, index):
        self.times[index] += 1
        image, label = super().__getitem__(index)
        return image * float(self.times[index]), label


def times_in_an_array():
    """An array counts how often each item was taken, and the item depends on it."""
    fit(DataLoader(_Table(6400), batch_size=16, shuffle=True), epochs=1)


class _ByCounter(Images):
    def __init__(self, length):
        super().__init__(length)
        self.stats = collections.Counter(fetched=0)

    def __getitem__(self, index):
        self.stats["fetched"] += 1
        image, label = super().__getitem__(index)
        return image * (1 + self.stats["fetched"] / 1000), label


def annealed_by_its_counter():
    """Augmentation that grows with the number of fetches."""
    fit(DataLoader(_ByCounter(480), batch_size=16, shuffle=True))


def _jittered(image):
    return image * float(_RNG.uniform(0.8, 1.2))


def generator_of_the_module():
    """The transform draws from the module's own numpy generator."""
    fit(DataLoader(Images(480, transform=_jittered), batch_size=16, shuffle=True))


class _Drawing(Images):
    def __init__(self, length):
        super().__init__(length)
        self.rng, self.generator = random.Random(3), torch.Generator().manual_seed(5)

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        noise = torch.rand(1, generator=self.generator)
        return image * noise * self.rng.uniform(0.8, 1.2), label


def generators_of_its_own():
    """`random.Random` and `torch.Generator` in the data set."""
    fit(DataLoader(_Drawing(480), batch_size=16, shuffle=True))


def drawing_in_one_worker():
    """The same, with one worker: its draws come in the order of the indices."""
    fit(DataLoader(_Drawing(480), batch_size=16, shuffle=True, num_workers=1))


def drawing_in_a_kept_worker():
    """The same with `persistent_workers`: the generators go on from epoch to epoch."""
    options = {"num_workers": 1, "persistent_workers": True}
    fit(DataLoader(_Drawing(480), batch_size=16, shuffle=True, **options))


class _Seeded(Images):
    """Each item by its own generator: the usual advice."""

    epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __getitem__(self, index):
        rng = np.random.default_rng((self.epoch, index))
        image, label = super().__getitem__(index)
        return image * float(rng.uniform(0.8, 1.2)), label


def epoch_and_index():
    """`set_epoch` on the data set, a generator for each item."""
    data = _Seeded(480)
    data.set_epoch(0)
    loader = DataLoader(data, batch_size=16, shuffle=True)
    fit(loader, end=lambda _, epoch: data.set_epoch(epoch + 1))


class _Reseeding(Images):
    def __getitem__(self, index):
        torch.manual_seed(index)
        image, label = super().__getitem__(index)
        return image + 0.1 * torch.randn(3, 16, 16), label


def reseeded_by_index():
    """`torch.manual_seed(index)` in the data set, dropout in the training."""
    trainer = Trainer()
    trainer.net.insert(2, torch.nn.Dropout(0.3))
    fit(DataLoader(_Reseeding(480), batch_size=16, shuffle=True), trainer=trainer)


class _Cached(Images):
    def __init__(self, length):
        super().__init__(length)
        self.cache = {}

    def __getitem__(self, index):
        if index not in self.cache:
            self.cache[index] = super().__getitem__(index)
        return self.cache[index]


def cached_on_first_access():
    """Items are made in the first epoch, and kept; the loop looks how many there are."""
    data = _Cached(480)
    loader = DataLoader(data, batch_size=16, shuffle=True)
    fit(loader, end=lambda trainer, _: trainer.truth.saw(len(data.cache)))


class _Logged(Images):
    def __getitem__(self, index):
        global _CALLS
        _CALLS += 1
        _SEEN.append(index)
        return super().__getitem__(index)


def log_in_the_module():
    """A list and a number of the module tell what was fetched."""
    loader = DataLoader(_Logged(480), batch_size=16, shuffle=True)
    fit(loader, end=lambda trainer, _: trainer.truth.saw((_CALLS, len(_SEEN), _SEEN[-3:])))


class _Former(Images):
    """Mixes an item with the one before it, whichever that was."""

    former = None

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        mixed = image if self.former is None else 0.9 * image + 0.1 * self.former
        type(self).former = image
        return mixed, label


def mixed_with_the_former():
    """The class keeps the latest item."""
    fit(DataLoader(_Former(480), batch_size=16, shuffle=True))


class _Item:
    def __init__(self, image):
        self.image = image


class _Weak(Images):
    """A cache that forgets what nobody holds; a fetch tells if it was there."""

    def __init__(self, length):
        super().__init__(length)
        self.known, self.latest = weakref.WeakValueDictionary(), collections.deque(maxlen=50)

    def __getitem__(self, index):
        index %= 200
        item = self.known.get(index)
        hit = item is not None
        if not hit:
            item = self.known[index] = _Item(super().__getitem__(index)[0])
        self.latest.append(item)
        return item.image * (1.0 + hit), index % 10


def weak_cache():
    """Weak references, a deque that holds the latest."""
    fit(DataLoader(_Weak(480), batch_size=16, shuffle=True))


class _ByWorker(Images):
    def __getitem__(self, index):
        info = get_worker_info()
        image, label = super().__getitem__(index)
        return image * (1.0 if info is None else 2.0 + info.id), label


def asks_for_its_worker():
    """The item depends on where it is made."""
    fit(DataLoader(_ByWorker(480), batch_size=16, shuffle=True))


def checkpointed():
    """The random states are saved within an epoch, and a second training resumes from them."""
    trainer = Trainer()
    trainer.net.insert(2, torch.nn.Dropout(0.3))
    generator = torch.Generator().manual_seed(11)
    loader = DataLoader(Images(480), batch_size=16, shuffle=True, generator=generator)
    states = []

    def note(*_):
        states.append((torch.get_rng_state(), generator.get_state()))
        trainer.truth.saw([int(state.sum()) for state in states[-1]])

    def resume(_trainer, epoch):
        if epoch == 1:
            torch.set_rng_state(states[10][0])
            generator.set_state(states[10][1])

    fit(loader, note, trainer=trainer, end=resume, epochs=4)


if __name__ == "__main__":
    start(globals())
