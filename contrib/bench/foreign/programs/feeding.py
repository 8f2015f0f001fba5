"""Torch alone, its batches fed in unusual ways: `python -m ...feeding NAME`."""

import multiprocessing
import sys

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset, random_split

from .data import Images, Stream, model
from .truth import Truth, same_each_time

EPOCHS = 3


class Trainer:
    def __init__(self):
        same_each_time()
        self.net, self.truth = model(), Truth()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=1e-3)

    def step(self, data, target):
        loss = F.cross_entropy(self.net(data), target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.truth.trained(len(data), loss.item())

    def fit(self, loader, epochs=EPOCHS):
        for _ in range(epochs):
            with self.truth.training():
                for data, target in loader:
                    self.step(data, target)
        return self


class Batches(Images):
    """The dataset makes whole batches."""

    def __getitem__(self, indices):
        made = [Images.__getitem__(self, index) for index in indices]
        return torch.stack([image for image, _ in made]), torch.tensor([y for _, y in made])


def batch_size_none():
    data = Batches()
    sampler = BatchSampler(RandomSampler(data), 16, drop_last=False)
    Trainer().fit(DataLoader(data, sampler=sampler, batch_size=None)).truth.tell()


def iterable_sharded():
    Trainer().fit(DataLoader(Stream(), batch_size=16, num_workers=1)).truth.tell()


def endless():
    """`cycle(loader)` and a number of steps."""

    def cycle(loader):
        while True:
            yield from loader

    trainer = Trainer()
    with trainer.truth.training():
        loader = DataLoader(Images(200), batch_size=16, shuffle=True)
        for number, (data, target) in enumerate(cycle(loader)):
            trainer.step(data, target)
            if number == 100:
                break
    trainer.truth.tell()


def side_by_side():
    """Labelled and unlabelled batches, zipped."""
    trainer = Trainer()
    labelled = DataLoader(Images(300), batch_size=12, shuffle=True)
    unlabelled = DataLoader(Images(100), batch_size=4, shuffle=True)
    for _ in range(EPOCHS):
        with trainer.truth.training():
            for (data, target), (more, _) in zip(labelled, unlabelled, strict=True):
                trainer.step(data + 0.1 * more.mean(), target)
    trainer.truth.tell()


def several_trainings():
    """Three folds, each with a model, an optimiser and loaders of its own."""
    first = Trainer()
    parts = random_split(Images(), [200, 100, 100], generator=torch.Generator().manual_seed(2**40))
    for part in parts:
        trainer = Trainer()
        trainer.truth = first.truth
        trainer.fit(DataLoader(part, batch_size=16, shuffle=True), 3)
    first.truth.tell()


def tensors():
    """A TensorDataset, whose samples cost next to nothing."""
    same_each_time()
    trainer = Trainer()
    trainer.net = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.Linear(2048, 10))
    trainer.optimizer = torch.optim.SGD(trainer.net.parameters(), lr=1e-3)
    data = TensorDataset(torch.randn(6400, 512), torch.arange(6400) % 10)
    trainer.fit(DataLoader(data, batch_size=64, shuffle=True), 4).truth.tell()


def own_collate():
    """Batches as dictionaries, by a collate function of the program's own."""

    def collate(rows):
        return {"x": torch.stack([x for x, _ in rows]), "y": torch.tensor([y for _, y in rows])}

    trainer = Trainer()
    loader = DataLoader(Images(), batch_size=16, shuffle=True, collate_fn=collate)
    for _ in range(EPOCHS):
        with trainer.truth.training():
            for batch in loader:
                trainer.step(batch["x"], batch["y"])
    trainer.truth.tell()


def spawned_workers():
    """Workers that are spawned, as on other systems."""
    loader = DataLoader(
        Images(),
        batch_size=16,
        shuffle=True,
        num_workers=1,
        persistent_workers=True,
        multiprocessing_context=multiprocessing.get_context("spawn"),
    )
    Trainer().fit(loader, 4).truth.tell()


def multi_epochs():
    """timm's loader of several epochs: a batch sampler that repeats itself, one iterator."""

    class Repeat:
        def __init__(self, sampler):
            self.sampler = sampler

        def __iter__(self):
            while True:
                yield from iter(self.sampler)

    class MultiEpochsDataLoader(DataLoader):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self._DataLoader__initialized = False
            self.batch_sampler = Repeat(self.batch_sampler)
            self._DataLoader__initialized = True
            self.iterator = super().__iter__()

        def __len__(self):
            return len(self.batch_sampler.sampler)

        def __iter__(self):
            for _ in range(len(self)):
                yield next(self.iterator)

    trainer = Trainer()
    loader = MultiEpochsDataLoader(Images(), batch_size=16, shuffle=True)
    held_out = MultiEpochsDataLoader(Images(100), batch_size=50)
    for _ in range(EPOCHS):
        trainer.fit(loader, 1)
        with torch.no_grad():
            for data, _ in held_out:
                trainer.net(data)
    trainer.truth.tell()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
