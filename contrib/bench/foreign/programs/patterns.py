"""Shapes of training loops that public examples share: `python -m ...patterns NAME`."""

import asyncio
import copy
import itertools
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, Subset

from .data import Images, model
from .feeding import EPOCHS, Trainer


def learning_rate_finder():
    """A range test on a copy of the model, stopped early; then the training, from its start."""
    trainer = Trainer()
    loader = DataLoader(Images(), batch_size=16, shuffle=True)
    net = copy.deepcopy(trainer.net)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=1.5)
    with trainer.truth.training():
        for data, target in itertools.islice(loader, 12):
            loss = F.cross_entropy(net(data), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            trainer.truth.trained(len(data), loss.item())
    trainer.fit(loader, 4).truth.tell()


def limited_steps():
    """`islice` bounds each epoch, which ends within a pass."""
    trainer = Trainer()
    loader = DataLoader(Images(), batch_size=16, shuffle=True)
    for _ in range(4):
        with trainer.truth.training():
            for data, target in itertools.islice(loader, 20):
                trainer.step(data, target)
    trainer.truth.tell()


def generator_of_batches():
    """A class whose generator makes a loader for each epoch and hands batches on."""

    class Feeder:
        def __init__(self):
            self.epoch = 0

        def batches(self):
            while self.epoch < 4:
                yield from DataLoader(Images(), batch_size=16, shuffle=True)
                self.epoch += 1

    trainer = Trainer()
    with trainer.truth.training():
        for data, target in Feeder().batches():
            trainer.step(data, target)
    trainer.truth.tell()


def evaluated_midway():
    """Every ten steps the whole validation, in the middle of the epoch."""
    trainer = Trainer()
    held_out = DataLoader(Images(60), batch_size=20)
    for _ in range(EPOCHS):
        trainer.truth.begin()
        for number, (data, target) in enumerate(DataLoader(Images(), batch_size=16, shuffle=True)):
            trainer.step(data, target)
            if number % 10 == 9:
                trainer.truth.end()
                trainer.net.eval()
                with torch.no_grad():
                    sum((trainer.net(x).argmax(1) == y).sum() for x, y in held_out)
                trainer.net.train()
                trainer.truth.begin()
        trainer.truth.end()
    trainer.truth.tell()


def averaged_weights():
    """torch.optim.swa_utils' moving average, clipped gradients, a schedule by step."""
    trainer = Trainer()
    average = AveragedModel(trainer.net)
    schedule = torch.optim.lr_scheduler.OneCycleLR(trainer.optimizer, 0.01, total_steps=200)
    loader = DataLoader(Images(), batch_size=16, shuffle=True, drop_last=True)
    for _ in range(EPOCHS):
        with trainer.truth.training():
            for data, target in loader:
                loss = F.cross_entropy(trainer.net(data), target)
                trainer.optimizer.zero_grad(set_to_none=True)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(trainer.net.parameters(), 1.0)
                trainer.optimizer.step()
                average.update_parameters(trainer.net)
                schedule.step()
                trainer.truth.trained(len(data), loss.item())
    trainer.truth.tell()


def last_partial_accumulation():
    """Three batches a step, and one more step for what is left of the epoch."""
    trainer = Trainer()
    loader = DataLoader(Images(), batch_size=16, shuffle=True)
    for _ in range(EPOCHS):
        with trainer.truth.training():
            for number, (data, target) in enumerate(loader, 1):
                loss = F.cross_entropy(trainer.net(data), target) / 3
                loss.backward()
                if number % 3 == 0 or number == len(loader):
                    trainer.optimizer.step()
                    trainer.optimizer.zero_grad()
                trainer.truth.trained(len(data), loss.item())
    trainer.truth.tell()


def engine():
    """Handlers and events around a step, as engines have them."""

    class Engine:
        def __init__(self, step):
            self.step, self.handlers = step, {}

        def on(self, event, handler):
            self.handlers.setdefault(event, []).append(handler)

        def fire(self, event):
            for handler in self.handlers.get(event, ()):
                handler()

        def run(self, loader, epochs):
            for _ in range(epochs):
                self.fire("epoch started")
                for batch in loader:
                    self.step(*batch)
                self.fire("epoch completed")

    trainer = Trainer()
    one = Engine(trainer.step)
    one.on("epoch started", trainer.truth.begin)
    one.on("epoch completed", trainer.truth.end)
    one.run(DataLoader(Images(), batch_size=16, shuffle=True), EPOCHS)
    trainer.truth.tell()


def in_an_event_loop():
    """An asyncio program that trains between other things."""
    trainer = Trainer()
    loader = DataLoader(Images(), batch_size=16, shuffle=True)

    async def epoch():
        with trainer.truth.training():
            for data, target in loader:
                trainer.step(data, target)
                await asyncio.sleep(0)

    async def main():
        for _ in range(EPOCHS):
            await epoch()

    asyncio.run(main())
    trainer.truth.tell()


def _square(number):
    return number * number


def beside_a_pool():
    """A pool of processes lives beside the training, and has work."""
    trainer = Trainer()
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        results = pool.map(_square, range(200))
        trainer.fit(DataLoader(Images(), batch_size=16, shuffle=True), EPOCHS)
        sum(results)
    trainer.truth.tell()


def spawn_by_default():
    """The program's start method is spawn."""
    multiprocessing.set_start_method("spawn")
    Trainer().fit(DataLoader(Images(), batch_size=16, shuffle=True), 4).truth.tell()


def seeded_workers():
    """The reproducibility note: a pinned seed, workers that seed themselves, no augmentation."""
    trainer = Trainer()
    torch.manual_seed(0)

    def seed_worker(_):
        torch.initial_seed()

    generator = torch.Generator().manual_seed(0)
    loader = DataLoader(
        Images(800),
        batch_size=16,
        shuffle=True,
        num_workers=1,
        worker_init_fn=seed_worker,
        generator=generator,
    )
    trainer.fit(loader, 4).truth.tell()


def subsets_by_fold():
    """scikit-learn's way: fit for each fold, a Subset each."""
    trainer = Trainer()
    data = Images(600)
    for fold in range(3):
        kept = [index for index in range(600) if index % 3 != fold]
        trainer.fit(DataLoader(Subset(data, kept), batch_size=16, shuffle=True), 2)
    trainer.truth.tell()


def multi_epoch_dropout():
    """A repeating batch sampler and dropout: shuffling and the model draw in turn."""
    trainer = Trainer()
    trainer.net = torch.nn.Sequential(model(), torch.nn.Dropout(0.5))
    trainer.optimizer = torch.optim.SGD(trainer.net.parameters(), lr=1e-3)

    class Repeat:
        def __init__(self, sampler):
            self.sampler = sampler

        def __iter__(self):
            while True:
                yield from iter(self.sampler)

    class InfiniteDataLoader(DataLoader):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            object.__setattr__(self, "batch_sampler", Repeat(self.batch_sampler))
            self.iterator = super().__iter__()

        def __len__(self):
            return len(self.batch_sampler.sampler)

        def __iter__(self):
            for _ in range(len(self)):
                yield next(self.iterator)

    trainer.fit(InfiniteDataLoader(Images(), batch_size=16, shuffle=True), 4).truth.tell()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
