"""Data that the loop changes while it reads them: `python -m ...visitors.shared_state NAME`.

Workers would see them as they were at the pass's start, and the losses would be others.
"""

import sys
import time

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.utils.data import DataLoader, Dataset, Sampler

from contrib.bench.foreign.programs.data import COST_S, Images
from contrib.bench.foreign.programs.feeding import Trainer

STEP_S = 0.008  # as if an accelerator computed


def _fit(trainer, loader, after_step, epochs=3):
    for _ in range(epochs):
        with trainer.truth.training():
            for x, y, *more in loader:
                trainer.step(x, y)
                time.sleep(STEP_S)
                after_step(x, y, *more)
    trainer.truth.tell()


class _Harder(Images):
    """Pictures with as much noise as the loop has set."""

    level = 0.0

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return image * (1 + self.level), label


def difficulty_by_step():
    """A curriculum: after each step the loop sets the data set's difficulty."""
    trainer, data = Trainer(), _Harder(480)

    def harder(*_):
        data.level = trainer.truth.steps / 100

    _fit(trainer, DataLoader(data, batch_size=16, shuffle=True), harder)


class _Relabelled(Dataset):
    """Labels in a tensor that the loop writes to."""

    def __init__(self, length):
        self.images, self.labels = Images(length), torch.arange(length) % 10

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index][0], self.labels[index].clone(), index


def labels_corrected():
    """Self-training: what the model says of a batch becomes its label, in place."""
    trainer, data = Trainer(), _Relabelled(480)

    def correct(x, y, indices):
        with torch.no_grad():
            data.labels[(indices + 7) % len(data)] = (trainer.net(x).argmax(1) + y) % 10

    _fit(trainer, DataLoader(data, batch_size=16, shuffle=True), correct)


class _Mined(Images):
    """The model itself chooses which of two pictures is the harder one."""

    def __init__(self, length, net):
        super().__init__(length)
        self.net = net

    def __getitem__(self, index):
        one, label = super().__getitem__(index)
        other, other_label = super().__getitem__((index * 7 + 3) % len(self))
        with torch.no_grad():
            sure, other_sure = self.net(torch.stack([one, other])).amax(1)
        return (one, label) if sure < other_sure else (other, other_label)


def mined_by_the_model():
    """Hard examples: the data set asks the model that is trained."""
    trainer = Trainer()
    data = _Mined(320, trainer.net)
    _fit(trainer, DataLoader(data, batch_size=16, shuffle=True), lambda *_: None)


class _ByLoss(Sampler):
    """Each index is drawn when it is asked for, by the losses so far."""

    def __init__(self, length):
        self.losses = torch.ones(length)

    def __len__(self):
        return len(self.losses)

    def __iter__(self):
        for _ in range(len(self.losses)):
            yield int(torch.multinomial(self.losses, 1))


def sampled_by_loss():
    """Prioritised sampling: a sampler of the program's own whose weights are the losses."""
    trainer, data = Trainer(), _Relabelled(480)
    sampler = _ByLoss(480)

    def note(x, y, indices):
        with torch.no_grad():
            losses = F.cross_entropy(trainer.net(x), y, reduction="none")
        sampler.losses[indices] = losses + 0.01

    _fit(trainer, DataLoader(data, batch_size=16, sampler=sampler), note)


_SETTINGS = {"shift": 0.0}


def _shifted(image):
    return image + _SETTINGS["shift"]


def transform_by_a_global():
    """The transform reads the program's settings, which a schedule changes within the epoch."""
    trainer = Trainer()

    def schedule(*_):
        _SETTINGS["shift"] = trainer.truth.steps / 200

    loader = DataLoader(Images(480, transform=_shifted), batch_size=16, shuffle=True)
    _fit(trainer, loader, schedule)


class _Resized(Sampler):
    """Multi-scale training: batches of indices with the size that the loop wants next."""

    def __init__(self, length):
        self.length, self.size = length, 16

    def __iter__(self):
        for first in range(0, self.length, 16):
            yield [(index, self.size) for index in range(first, first + 16)]

    def __len__(self):
        return self.length // 16


class _Scaled(Dataset):
    def __getitem__(self, asked):
        index, size = asked
        time.sleep(COST_S)
        image = torch.sin(torch.arange(3.0 * size * size) * (index % 17 + 1))
        return F.interpolate(image.reshape(1, 3, size, size), 16)[0], index % 10


def scaled_by_the_loop():
    """The next batch's size is set by the loop, between two batches."""
    trainer, sampler = Trainer(), _Resized(480)

    def resize(*_):
        sampler.size = 12 + trainer.truth.steps % 3 * 4

    _fit(trainer, DataLoader(_Scaled(), batch_sampler=sampler), resize)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
