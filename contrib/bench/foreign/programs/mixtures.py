"""Torch alone, several loaders, models or threads at once: `python -m ...mixtures NAME`."""

import copy
import itertools
import queue
import random
import sys
import threading

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.utils.data import DataLoader, Subset

from .data import Images, model
from .feeding import EPOCHS, Trainer
from .truth import Truth, same_each_time


def alternating_tasks():
    """Multi-task training: each step takes a batch of a task that was drawn."""
    trainer = Trainer()
    tasks = [DataLoader(Images(n), batch_size=b, shuffle=True) for n, b in ((500, 16), (260, 8))]
    order = random.Random(5)
    feeds = [iter(loader) for loader in tasks]
    with trainer.truth.training():
        for _ in range(120):
            task = order.randrange(2)
            try:
                data, target = next(feeds[task])
            except StopIteration:
                feeds[task] = iter(tasks[task])
                data, target = next(feeds[task])
            trainer.step(data, target)
    trainer.truth.tell()


def cycled():
    """Few labels, many images: `itertools.cycle` keeps the batches of its first round."""
    trainer = Trainer()
    many = DataLoader(Images(500), batch_size=16, shuffle=True)
    few = DataLoader(Images(90), batch_size=16, shuffle=True)
    for _ in range(EPOCHS):
        with trainer.truth.training():
            for (data, target), (more, _) in zip(many, itertools.cycle(few), strict=False):
                trainer.step(data + 0.1 * more.mean(), target)
    trainer.truth.tell()


def growing_batches():
    """Progressive training: the batch and its loader change while the model goes on."""
    trainer = Trainer()
    for size in (8, 16, 32):
        trainer.fit(DataLoader(Images(600), batch_size=size, shuffle=True), 2)
    trainer.truth.tell()


def federated():
    """FedAvg: each round, clients train copies of the model, which are averaged."""
    trainer, truth = Trainer(), Truth()
    parts = [Subset(Images(600), range(first, 600, 5)) for first in range(5)]
    clients = [DataLoader(part, batch_size=16, shuffle=True) for part in parts]
    for _ in range(4):
        copies = []
        for loader in clients:
            client = copy.copy(trainer)
            client.truth, client.net = truth, copy.deepcopy(trainer.net)
            client.optimizer = torch.optim.SGD(client.net.parameters(), lr=1e-3)
            client.fit(loader, 1)
            copies.append(dict(client.net.named_parameters()))
        with torch.no_grad():
            for name, parameter in trainer.net.named_parameters():
                parameter.copy_(torch.stack([one[name] for one in copies]).mean(0))
    truth.tell()


def _ahead(loader, most=4):
    """prefetch_generator's BackgroundGenerator: a thread reads the loader into a queue."""
    batches, end = queue.Queue(most), object()

    def read():
        for batch in loader:
            batches.put(batch)
        batches.put(end)

    threading.Thread(target=read, daemon=True).start()
    while (batch := batches.get()) is not end:
        yield batch


def read_by_a_thread():
    trainer = Trainer()
    loader = DataLoader(Images(), batch_size=16, shuffle=True)
    for _ in range(4):
        with trainer.truth.training():
            for data, target in trainer.truth.batches(_ahead(loader)):
                trainer.step(data, target)
    trainer.truth.tell()


class Prefetcher:
    """apex's data_prefetcher: the next batch is asked for before this one's step."""

    def __init__(self, loader):
        self.feed = iter(loader)
        self.preload()

    def preload(self):
        self.batch = next(self.feed, None)

    def next(self):
        batch = self.batch
        self.preload()
        return batch


def read_ahead_by_one():
    trainer = Trainer()
    loader = DataLoader(Images(), batch_size=16, shuffle=True, num_workers=1)
    for _ in range(4):
        with trainer.truth.training():
            ahead = Prefetcher(loader)
            while (batch := ahead.next()) is not None:
                trainer.step(*batch)
    trainer.truth.tell()


def two_threads():
    """A search over learning rates by threads, a model and a loader in each."""
    same_each_time()
    truths, nets = [Truth(), Truth()], [model(), model()]

    def search(truth, net, rate):
        optimizer = torch.optim.SGD(net.parameters(), lr=rate)
        draws = torch.Generator().manual_seed(1 << 40)
        loader = DataLoader(Images(), batch_size=16, shuffle=True, generator=draws)
        for _ in range(4):
            with truth.training():
                for data, target in loader:
                    loss = F.cross_entropy(net(data), target)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    truth.trained(len(data), loss.item())

    each = zip(truths, nets, (1e-3, 1e-2), strict=True)
    threads = [threading.Thread(target=search, args=one) for one in each]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for truth in truths:
        truth.tell()


def meta_learning():
    """MAML, first order: an inner optimiser for each task of a batch, an outer step for all."""
    trainer = Trainer()
    loader = DataLoader(Images(), batch_size=20, shuffle=True)
    for _ in range(EPOCHS):
        with trainer.truth.training():
            for data, target in trainer.truth.batches(loader):
                trainer.optimizer.zero_grad()
                for x, y in zip(data.chunk(4), target.chunk(4), strict=True):
                    learner = copy.deepcopy(trainer.net)
                    inner = torch.optim.SGD(learner.parameters(), lr=1e-2)
                    for _ in range(2):
                        inner.zero_grad()
                        F.cross_entropy(learner(x), y).backward()
                        inner.step()
                    inner.zero_grad()
                    loss = F.cross_entropy(learner(x), y)
                    loss.backward()
                    for p, q in zip(trainer.net.parameters(), learner.parameters(), strict=True):
                        p.grad = q.grad.clone() if p.grad is None else p.grad + q.grad
                trainer.optimizer.step()
                trainer.truth.trained(len(data), loss.item())
    trainer.truth.tell()


def stepped_in_backward():
    """Optimisers fused into backward: a hook on each parameter steps its own optimiser."""
    trainer = Trainer()
    steppers = {p: torch.optim.SGD([p], lr=1e-3) for p in trainer.net.parameters()}

    def update(parameter):
        steppers[parameter].step()
        steppers[parameter].zero_grad()

    for parameter in trainer.net.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    loader = DataLoader(Images(), batch_size=16, shuffle=True)
    for _ in range(EPOCHS):
        with trainer.truth.training():
            for data, target in trainer.truth.batches(loader):
                loss = F.cross_entropy(trainer.net(data), target)
                loss.backward()
                trainer.truth.trained(len(data), loss.item())
    trainer.truth.tell()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
