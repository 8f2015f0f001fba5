"""Loaders that are read for more than an epoch's steps: `python -m ...newcomers.passes NAME`."""

import itertools
import sys
import time

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.utils.data import DataLoader, SubsetRandomSampler, WeightedRandomSampler

from contrib.bench.foreign.programs.data import Images, model
from contrib.bench.foreign.programs.feeding import Trainer
from contrib.bench.foreign.programs.truth import same_each_time

STEP_S = 0.02  # as if an accelerator computed: what is read without a step goes faster


def _fit(trainer, loader):
    trainer.net.train()
    with trainer.truth.training():
        for x, y in loader:
            trainer.step(x, y)
            time.sleep(STEP_S)


def _right(trainer, loader):
    trainer.net.eval()
    with torch.no_grad():
        return sum(int((trainer.net(x).argmax(1) == y).sum()) for x, y in loader)


def training_accuracy():
    """After each epoch the accuracy on the training data, from the same loader."""
    trainer, loader = Trainer(), DataLoader(Images(320), batch_size=16, shuffle=True)
    for _ in range(4):
        _fit(trainer, loader)
        _right(trainer, loader)
    trainer.truth.tell()


def statistics_first():
    """Mean and deviation of the pictures, from the training's own loader, before the first step."""
    trainer, loader = Trainer(), DataLoader(Images(480), batch_size=16, shuffle=True)
    total = torch.zeros(2)
    for x, _ in loader:
        total += torch.stack([x.mean(), x.pow(2).mean()])
    for _ in range(3):
        _fit(trainer, loader)
    trainer.truth.tell()


def skipped_by_continue():
    """A run goes on in the middle of an epoch: batches that were done are passed over."""
    trainer, loader = Trainer(), DataLoader(Images(480), batch_size=16, shuffle=True)
    for epoch in range(3):
        began = False
        for number, (x, y) in enumerate(loader):
            if epoch == 0 and number < 15:
                continue
            if not began:
                began = True
                trainer.truth.begin()
            trainer.step(x, y)
            time.sleep(STEP_S)
        trainer.truth.end()
    trainer.truth.tell()


def kept_batches():
    """The loader is read once into a list; epochs go over that."""
    trainer = Trainer()
    kept = list(DataLoader(Images(320), batch_size=16, shuffle=True))
    for _ in range(8):
        _fit(trainer, kept)
    trainer.truth.tell()


def cycled_for_ever():
    """`itertools.cycle` on the training's only loader: from the second round on from memory."""
    trainer = Trainer()
    feed = itertools.cycle(DataLoader(Images(320), batch_size=16, shuffle=True))
    with trainer.truth.training():
        for _ in range(160):
            trainer.step(*next(feed))
            time.sleep(0.005)
    trainer.truth.tell()


def evaluated_in_memory():
    """Every twentieth batch an evaluation on tensors that lie ready."""
    trainer, loader = Trainer(), DataLoader(Images(640), batch_size=16, shuffle=True)
    held_out = torch.randn(512, 3, 16, 16)
    for _ in range(2):
        trainer.truth.begin()
        for number, (x, y) in enumerate(loader, 1):
            trainer.step(x, y)
            if number % 20 == 0:
                trainer.truth.end()
                trainer.net.eval()
                with torch.no_grad():
                    for part in held_out.split(64):
                        trainer.net(part)
                        time.sleep(0.02)
                trainer.net.train()
                trainer.truth.begin()
        trainer.truth.end()
    trainer.truth.tell()


def full_batch():
    """Gradient descent: gradients of a whole epoch, one step at its end."""
    same_each_time()
    trainer, loader = Trainer(), DataLoader(Images(320), batch_size=16)
    for _ in range(5):
        with trainer.truth.training():
            trainer.optimizer.zero_grad()
            for x, y in loader:
                loss = F.cross_entropy(trainer.net(x), y) / 20
                loss.backward()
                trainer.truth.trained(len(x), loss.item())
                time.sleep(STEP_S)
            trainer.optimizer.step()
        _right(trainer, DataLoader(Images(160), batch_size=80))
    trainer.truth.tell()


def folds_until_worse():
    """k-fold: two samplers on one data set, a new model for each fold, early stopping."""
    trainer, data = Trainer(), Images(400)
    order = torch.randperm(400).tolist()
    for fold in range(4):
        trainer.net = model()
        trainer.optimizer = torch.optim.Adam(trainer.net.parameters(), 1e-3)
        held = order[fold * 100 : fold * 100 + 100]
        rest = [index for index in order if index not in held]
        train = DataLoader(data, batch_size=20, sampler=SubsetRandomSampler(rest))
        check = DataLoader(data, batch_size=20, sampler=SubsetRandomSampler(held))
        best, patience = -1, 0
        for _ in range(4):
            _fit(trainer, train)
            right = _right(trainer, check)
            best, patience = max(best, right), 0 if right > best else patience + 1
            if patience == 2:
                break
    trainer.truth.tell()


def grid():
    """One script tries rates and momenta, a short training for each."""
    truth = Trainer().truth
    for rate, momentum in itertools.product((1e-3, 1e-2), (0.0, 0.9)):
        trainer = Trainer()
        trainer.truth = truth
        trainer.optimizer = torch.optim.SGD(trainer.net.parameters(), lr=rate, momentum=momentum)
        for _ in range(2):
            _fit(trainer, DataLoader(Images(256), batch_size=16, shuffle=True))
            _right(trainer, DataLoader(Images(64), batch_size=64))
    truth.tell()


def batch_size_found():
    """Larger and larger batches are tried for three steps; the third one is trained with."""
    trainer = Trainer()
    for size in (4, 8, 16):
        loader = DataLoader(Images(320), batch_size=size, shuffle=True)
        with trainer.truth.training():
            for x, y in itertools.islice(loader, 3):
                trainer.step(x, y)
    for _ in range(4):
        _fit(trainer, loader)
    trainer.truth.tell()


def weighted():
    """Rare classes oftener: fewer draws than items, workers that stay for all epochs."""
    trainer, data = Trainer(), Images(800)
    sampler = WeightedRandomSampler([1 + i % 10 for i in range(800)], 320, replacement=True)
    loader = DataLoader(
        data, batch_size=16, sampler=sampler, num_workers=1, persistent_workers=True
    )
    for _ in range(4):
        _fit(trainer, loader)
        _right(trainer, DataLoader(Images(80), batch_size=40))
    trainer.truth.tell()


def interleaved_tasks():
    """A test loader's iterator is asked for one batch after every fifth step."""
    trainer, loader = Trainer(), DataLoader(Images(480), batch_size=16, shuffle=True)
    feed = iter(DataLoader(Images(2000), batch_size=16))
    for _ in range(3):
        trainer.truth.begin()
        for number, (x, y) in enumerate(loader, 1):
            trainer.step(x, y)
            time.sleep(STEP_S)
            if number % 5 == 0:
                with torch.no_grad():
                    F.cross_entropy(trainer.net(next(feed)[0]), y)
        trainer.truth.end()
    trainer.truth.tell()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
