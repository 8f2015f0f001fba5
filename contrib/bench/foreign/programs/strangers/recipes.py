"""Toolkits' own loops, on torch alone: `python -m ...strangers.recipes NAME`."""

import itertools
import multiprocessing
import operator
import queue
import sys
import threading
import time

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset

from contrib.bench.foreign.programs.data import COST_S, Images, model, tokens
from contrib.bench.foreign.programs.feeding import Trainer
from contrib.bench.foreign.programs.truth import Truth, same_each_time


class Texts(Dataset):
    """Token lists of several lengths, and their labels shifted by one."""

    def __init__(self, length=480):
        self.length, self.text = length, tokens()

    def __len__(self):
        return self.length

    def size(self, index):
        return 8 + index * 31 % 24

    def __getitem__(self, index):
        time.sleep(COST_S)
        first = index * 37
        return self.text[first : first + self.size(index)].tolist()


def _padded(rows):
    longest = max(map(len, rows))
    made = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    return {"tokens": made[:, :-1], "labels": made[:, 1:]}


def _language_model():
    return torch.nn.Sequential(torch.nn.Embedding(64, 32), torch.nn.Linear(32, 64))


def _loss(net, batch):
    found = net(batch["tokens"])
    return F.cross_entropy(found.flatten(0, 1), batch["labels"].flatten(), ignore_index=0)


def torchtune_single_device():
    """A recipe: seed of its own, padded batches, gradients of several weighed by their tokens."""
    torch.manual_seed(1234)
    net, truth, accumulated = _language_model(), Truth(), 4
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
    data = Texts()
    sampler = DistributedSampler(data, num_replicas=1, rank=0, shuffle=True, seed=0)
    loader = DataLoader(data, sampler=sampler, batch_size=4, drop_last=True, collate_fn=_padded)
    running, number = 0.0, 0
    for epoch in range(3):
        sampler.set_epoch(epoch)
        with truth.training():
            for place, batch in enumerate(loader):
                weight = (batch["labels"] != 0).sum()
                number += weight
                loss = _loss(net, batch) * weight
                running += loss.detach()
                loss.backward()
                if (place + 1) % accumulated == 0:
                    for parameter in net.parameters():
                        parameter.grad.mul_(1 / number)
                    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=True)
                    running, number = 0.0, 0
                truth.trained(len(batch["tokens"]), loss.item())
    truth.tell()


class _Buffered:
    """fairseq's BufferedIterator: a thread reads ahead."""

    def __init__(self, size, iterable):
        self.queue, self.iterable = queue.Queue(size), iterable
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for item in self.iterable:
            self.queue.put(item)
        self.queue.put(None)

    def __iter__(self):
        return iter(self.queue.get, None)


def fairseq_updates(buffered=False):
    """Batches by tokens, shuffled, frozen in a list; a loader for each epoch; updates of two."""
    same_each_time()
    net, truth, data = _language_model(), Truth(), Texts()
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4, betas=(0.9, 0.98))
    order = sorted(range(len(data)), key=data.size)
    frozen = [order[first : first + 6] for first in range(0, len(order), 6)]
    for epoch in range(1, 4):
        shuffled = [
            frozen[i]
            for i in torch.randperm(len(frozen), generator=torch.Generator().manual_seed(epoch))
        ]
        with truth.training():
            loader = DataLoader(data, batch_sampler=shuffled, collate_fn=_padded, num_workers=0)
            feed = iter(_Buffered(5, loader) if buffered else loader)
            while group := list(itertools.islice(feed, 2)):
                optimizer.zero_grad()
                for batch in group:
                    loss = _loss(net, batch)
                    loss.backward()
                    truth.trained(len(batch["tokens"]), loss.item())
                optimizer.step()
    truth.tell()


def fairseq_buffered():
    fairseq_updates(buffered=True)


class _Mapped(IterableDataset):
    """detectron2's ToIterableDataset: an endless sampler's indices, one item at a time."""

    def __init__(self, data, seed):
        self.data, self.seed = data, seed

    def __iter__(self):
        draws = torch.Generator().manual_seed(self.seed)
        while True:
            for index in torch.randperm(len(self.data), generator=draws).tolist():
                image, label = self.data[index]
                yield {"image": image, "label": label, "wide": index % 3 == 0}


class _Grouped:
    """Its AspectRatioGroupedDataset: batches of pictures of one shape."""

    def __init__(self, loader, size):
        self.loader, self.size, self.buckets = loader, size, ([], [])

    def __iter__(self):
        for item in self.loader:
            bucket = self.buckets[item["wide"]]
            bucket.append(item)
            if len(bucket) == self.size:
                made = bucket[:]
                bucket.clear()
                yield made


def _row_by_row(trainer, feed):
    """150 steps on batches that are lists of dictionaries."""
    with trainer.truth.training():
        for _ in range(150):
            rows = next(feed)
            labels = torch.tensor([row["label"] for row in rows])
            trainer.step(torch.stack([row["image"] for row in rows]), labels)
    trainer.truth.tell()


def detectron_grouped():
    """SimpleTrainer: `next` on an endless loader of single items, put together by shape."""
    trainer = Trainer()
    loader = DataLoader(_Mapped(Images(), 7), num_workers=1, collate_fn=operator.itemgetter(0))
    _row_by_row(trainer, iter(_Grouped(loader, 8)))


def detectron_listed():
    """Without grouping: an endless iterable dataset, and batches that are lists of dictionaries."""
    trainer = Trainer()
    loader = DataLoader(_Mapped(Images(), 7), batch_size=8, collate_fn=list)
    _row_by_row(trainer, iter(loader))


def espnet_factories():
    """An iterator factory for each epoch: keys beside a dictionary, gradients of two."""
    same_each_time()
    net, truth, data = _language_model(), Truth(), Texts()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def collate(rows):
        batch = _padded([row for _, row in rows])
        batch["lengths"] = torch.tensor([len(row) for _, row in rows])
        return [key for key, _ in rows], batch

    class Keyed(Dataset):
        def __len__(self):
            return len(data)

        def __getitem__(self, key):
            return key, data[int(key.removeprefix("utt"))]

    def factory(epoch, first, last):
        keys = [f"utt{i}" for i in range(first, last)]
        batches = [keys[i : i + 6] for i in range(0, len(keys), 6)]
        if epoch is not None:
            import random

            random.Random(epoch).shuffle(batches)
        return DataLoader(Keyed(), batch_sampler=batches, collate_fn=collate, num_workers=1)

    for epoch in range(1, 4):
        net.train()
        with truth.training():
            for place, (_, batch) in enumerate(factory(epoch, 0, 400), 1):
                loss = _loss(net, batch) / 2
                loss.backward()
                truth.trained(len(batch["tokens"]), loss.item())
                if place % 2 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        net.eval()
        with torch.no_grad():
            for _, batch in factory(None, 400, 480):
                _loss(net, batch)
    truth.tell()


def _augmented(data, seed, made):
    """A background process of batchgenerators: it makes batches for ever."""
    torch.set_num_threads(1)
    draws = torch.Generator().manual_seed(seed)
    while True:
        rows = [data[i] for i in torch.randint(len(data), (8,), generator=draws).tolist()]
        made.put((torch.stack([x for x, _ in rows]).numpy(), [y for _, y in rows]))


def nnunet_epochs():
    """nnU-Net: processes of its own make batches; epochs are 60 of them, and 15 to validate."""
    trainer, context = Trainer(), multiprocessing.get_context("fork")
    feeds = []
    for seed in (1, 2):
        made = context.Queue(4)
        worker = context.Process(target=_augmented, args=(Images(), seed, made), daemon=True)
        worker.start()
        feeds.append((worker, made))
    held_out, training = feeds[1][1], feeds[0][1]
    for _ in range(4):
        trainer.net.train()
        with trainer.truth.training():
            for _ in range(60):
                data, target = training.get()
                trainer.step(torch.from_numpy(data), torch.tensor(target))
        trainer.net.eval()
        with torch.no_grad():
            for _ in range(15):
                data, target = held_out.get()
                F.cross_entropy(trainer.net(torch.from_numpy(data)), torch.tensor(target))
    for worker, _ in feeds:
        worker.terminate()
    trainer.truth.tell()


def _worker(rank, port, told):
    torch.distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2
    )
    torch.manual_seed(5)
    net, truth = torch.nn.parallel.DistributedDataParallel(model()), Truth()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    data = Images(800)
    loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data, shuffle=True))

    class Wrapped:
        """Ray's wrapped loader: hands batches on to the device."""

        def __iter__(self):
            for x, y in loader:
                yield x.to("cpu"), y.to("cpu")

    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        with truth.training():
            for x, y in Wrapped():
                loss = F.cross_entropy(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                truth.trained(len(x), loss.item())
        told.put({"rank": rank, "epoch": epoch, "loss": loss.item()})
    truth.tell()
    torch.distributed.destroy_process_group()


def ray_like():
    """Worker processes that a driver starts, and that report to it."""
    import os

    context = multiprocessing.get_context("spawn")
    told = context.Queue()
    port = os.environ.get("BENCH_PORT", "29711")
    workers = [context.Process(target=_worker, args=(rank, port, told)) for rank in range(2)]
    for worker in workers:
        worker.start()
    for _ in range(6):
        told.get(timeout=120)
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
