"""Data that the loop writes to, out of an easy look's reach: `python -m ...guests.written NAME`."""

import collections
import mmap
import os
import tempfile
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler, SubsetRandomSampler

from contrib.bench.foreign.programs.data import Images
from contrib.bench.foreign.programs.feeding import Trainer
from contrib.bench.foreign.programs.guests import STEP_S, fit, start


class _Arrays(Dataset):
    """Soft labels of a million numbers, in numpy."""

    def __init__(self, length):
        self.images = Images(length)
        self.soft = np.zeros((length, 2048), dtype=np.float32)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image, label = self.images[index]
        return image + float(self.soft[index].sum()), label, index


def soft_labels_in_an_array():
    """Self-distillation: the loop writes the model's outputs into one large array."""
    data = _Arrays(480)

    def note(_x, y, indices):
        data.soft[(indices.numpy() + 11) % 480, :8] += y.numpy()[:, None] / 100

    fit(DataLoader(data, batch_size=16, shuffle=True), note)


class _Viewed(_Arrays):
    """The same numbers as a tensor, of which the loop has an array."""

    def __init__(self, length):
        super().__init__(length)
        self.soft = torch.from_numpy(self.soft)


def tensor_written_by_its_array():
    """Writes through `tensor.numpy()` do not count for torch."""
    data = _Viewed(480)
    array = data.soft.numpy()

    def note(_x, y, indices):
        array[(indices.numpy() + 11) % 480, :8] += y.numpy()[:, None] / 100

    fit(DataLoader(data, batch_size=16, shuffle=True), note)


class _Mapped(_Arrays):
    def __init__(self, length, path):
        super().__init__(length)
        self.soft = np.memmap(path, np.float32, "w+", shape=(length, 64))


def memory_map_written():
    """A bank of features on disk, written by the loop."""
    with tempfile.NamedTemporaryFile() as file:
        data = _Mapped(480, file.name)

        def note(_x, y, indices):
            data.soft[(indices.numpy() + 11) % 480, :8] += y.numpy()[:, None] / 100

        fit(DataLoader(data, batch_size=16, shuffle=True), note)


class _Samples(Dataset):
    """A list of dicts, as annotations are kept."""

    def __init__(self, length):
        self.images = Images(length)
        self.samples = [{"target": {"weight": 1.0, "label": n % 10}} for n in range(length)]

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        target = self.samples[index]["target"]
        return self.images[index][0] * target["weight"], target["label"], index


def annotations_changed():
    """A deep change: one value of one dict in a list of two thousand."""
    data = _Samples(2000)

    def weigh(_x, y, indices):
        for index, label in zip(indices.tolist(), y.tolist(), strict=True):
            data.samples[(index + 13) % 2000]["target"]["weight"] += label / 50

    fit(DataLoader(data, batch_size=16), weigh, epochs=1)


class _Replay(Dataset):
    """A replay buffer as a data set: a deque of fixed length."""

    def __init__(self, length):
        self.images = Images(length)
        self.buffer = collections.deque(range(length), maxlen=length)

    def __len__(self):
        return len(self.buffer)

    def __getitem__(self, index):
        return self.images[self.buffer[index]]


def replay_buffer():
    """New experience is appended after each step."""
    data = _Replay(320)
    number = iter(range(320, 100000))

    def play(*_):
        for _step in range(5):
            data.buffer.append(next(number))

    fit(DataLoader(data, batch_size=16, shuffle=True), play)


def _by_environment(image):
    return image * (1 + float(os.environ.get("AUGMENT", "0")))


def environment():
    """The transform reads the environment, which the loop's schedule sets."""
    trainer = Trainer()

    def schedule(*_):
        os.environ["AUGMENT"] = str(trainer.truth.steps / 200)

    loader = DataLoader(Images(480, transform=_by_environment), batch_size=16, shuffle=True)
    fit(loader, schedule, trainer=trainer)


class _Indexed(Images):
    def __getitem__(self, index):
        return *super().__getitem__(index), index


def sampler_of_a_subset():
    """Active learning: the loop replaces entries of the sampler's own list."""
    sampler = SubsetRandomSampler(list(range(320)))

    def replace(_x, y, indices):
        for index, label in zip(indices.tolist(), y.tolist(), strict=True):
            sampler.indices[(index + 5) % 320] = 320 + (index + label) % 160

    fit(DataLoader(_Indexed(480), batch_size=16, sampler=sampler), replace)


def batch_size_of_the_sampler():
    """Batches grow within the epoch: the loop sets the batch sampler's size."""
    trainer = Trainer()
    loader = DataLoader(Images(640), batch_size=16, shuffle=True)

    def grow(*_):
        loader.batch_sampler.batch_size = 16 + trainer.truth.steps // 8

    fit(loader, grow, trainer=trainer)


class _Scored(Sampler):
    """Hard examples: a list whose rest the loop sorts within the epoch."""

    def __init__(self, length):
        self.order = list(range(length))

    def __len__(self):
        return len(self.order)

    def __iter__(self):
        return iter(self.order)


def sampler_sorted_by_losses():
    """The rest of the epoch is sorted by what the losses say."""
    sampler, trainer = _Scored(480), Trainer()
    place = [0]

    def sort(x, *_):
        place[0] += len(x)
        rest = sampler.order[place[0] :]
        sampler.order[place[0] :] = rest[1::2] + rest[::2]

    def again(*_):
        place[0] = 0

    fit(DataLoader(_Indexed(480), batch_size=16, sampler=sampler), sort, trainer=trainer, end=again)


class _Kept(Dataset):
    """Items are made once and handed out themselves."""

    def __init__(self, length):
        images = Images(length)
        self.items = [{"x": images[n][0], "y": images[n][1], "seen": 0} for n in range(length)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


def items_written_by_the_loop():
    """`collate_fn=list`: the loop notes in each item how often it was seen."""
    trainer = Trainer()
    loader = DataLoader(_Kept(480), batch_size=16, shuffle=True, collate_fn=list)
    for _ in range(3):
        with trainer.truth.training():
            for items in loader:
                scale = torch.tensor([1.0 + item["seen"] for item in items])
                x = torch.stack([item["x"] for item in items]) / scale[:, None, None, None]
                trainer.step(x, torch.tensor([item["y"] for item in items]))
                time.sleep(STEP_S)
                for item in items:
                    item["seen"] += 1
    trainer.truth.tell()


class _Blocks(Dataset):
    def __init__(self, length):
        images = Images(length)
        self.x = torch.stack([images[n][0] for n in range(length)]).numpy()

    def __len__(self):
        return len(self.x) // 16

    def __getitem__(self, number):
        return torch.from_numpy(self.x[16 * number : 16 * number + 16]), number


def blocks_normalised_in_place():
    """`batch_size=None`: batches are views of the data set's array, and the loop scales them."""
    trainer = Trainer()
    loader = DataLoader(_Blocks(480), batch_size=None)
    for _ in range(3):
        with trainer.truth.training():
            for x, number in loader:
                x /= 1.5  # noqa: PLW2901 - in place, as it is often written
                trainer.step(x, (torch.arange(len(x)) + number) % 10)
                time.sleep(STEP_S)
    trainer.truth.tell()


class _SharedMap(Images):
    def __init__(self, length):
        super().__init__(length)
        self.level = mmap.mmap(-1, 8)

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return image * (1 + self.level[0] / 100), label


def level_in_shared_memory():
    """The difficulty stands in memory that processes share."""
    data, trainer = _SharedMap(480), Trainer()

    def harder(*_):
        data.level[0] = trainer.truth.steps % 200

    fit(DataLoader(data, batch_size=16, shuffle=True), harder, trainer=trainer)


if __name__ == "__main__":
    start(globals())
