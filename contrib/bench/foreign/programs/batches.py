"""Samplers, streams and batches of a program's own: `python -m ...batches NAME`."""

import random
import sys
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence
from torch.utils.data import DataLoader, IterableDataset, Sampler, get_worker_info

from .data import Images, Stream
from .feeding import EPOCHS, Trainer


class Sentences(torch.utils.data.Dataset):
    """Token sequences of 3 to 30 tokens."""

    def __init__(self, length=400):
        self.images, self.lengths = Images(length), [3 + i * 7919 % 28 for i in range(length)]

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        _, label = self.images[index]
        return (torch.arange(self.lengths[index]) * (index + 1)) % 50, label


class Reader(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layers = torch.nn.Embedding(50, 16), torch.nn.GRU(16, 16, batch_first=True)
        self.head = torch.nn.Linear(16, 10)

    def forward(self, tokens):
        return self.head(self.layers(self.words(tokens))[0].mean(1))


def reading(loader, forward=None, epochs=EPOCHS):
    """A training on sequences; `forward` is the model's call."""
    trainer = Trainer()
    trainer.net = Reader()
    trainer.optimizer = torch.optim.SGD(trainer.net.parameters(), lr=1e-3)
    call = forward or (lambda net, tokens: net(tokens))
    for _ in range(epochs):
        with trainer.truth.training():
            for tokens, target in trainer.truth.batches(loader):
                loss = F.cross_entropy(call(trainer.net, tokens), target)
                trainer.optimizer.zero_grad()
                loss.backward()
                trainer.optimizer.step()
                trainer.truth.trained(len(target), loss.item())
    trainer.truth.tell()


def padded(rows):
    tokens = torch.nn.utils.rnn.pad_sequence([x for x, _ in rows], batch_first=True)
    return tokens, torch.tensor([y for _, y in rows])


class TokenBudget(Sampler):
    """fairseq's --max-tokens: as many sequences of like length as fit, in random order."""

    def __init__(self, lengths, most):
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        self.batches, batch = [], []
        for index in order:
            if batch and (len(batch) + 1) * lengths[index] > most:
                self.batches.append(batch)
                batch = []
            batch.append(index)
        self.batches.append(batch)

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        random.shuffle(self.batches)
        return iter(self.batches)


def token_budget():
    data = Sentences()
    sampler = TokenBudget(data.lengths, 256)
    reading(DataLoader(data, batch_sampler=sampler, collate_fn=padded))


def packed():
    """Sequences packed by the collate function."""

    def pack(rows):
        rows.sort(key=lambda row: -len(row[0]))
        return pack_sequence([x for x, _ in rows]), torch.tensor([y for _, y in rows])

    def forward(net, tokens):
        padded_tokens, _ = pad_packed_sequence(tokens, batch_first=True)
        return net(padded_tokens)

    reading(DataLoader(Sentences(), batch_size=16, shuffle=True, collate_fn=pack), forward)


class Example(NamedTuple):
    image: torch.Tensor
    target: dict


def nested():
    """A named tuple with a dictionary in it; torch puts them together."""

    class Detection(Images):
        def __getitem__(self, index):
            image, label = super().__getitem__(index)
            return Example(image, {"label": label, "boxes": torch.ones(2, 4), "id": str(index)})

    trainer = Trainer()
    loader = DataLoader(
        Detection(), batch_size=16, shuffle=True, num_workers=1, persistent_workers=True
    )
    for _ in range(4):
        with trainer.truth.training():
            for batch in trainer.truth.batches(loader):
                trainer.step(batch.image, batch.target["label"])
    trainer.truth.tell()


class Files(IterableDataset):
    """Files of 5 to 37 samples, divided among workers; each worker's last batch is short."""

    def __init__(self, files=24):
        self.sizes = [5 + i * 7 % 33 for i in range(files)]

    def __iter__(self):
        info, items = get_worker_info(), Images(1000)
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for size in self.sizes[first::step]:
            for index in range(size):
                yield items[index]


def uneven_shards():
    """Two workers, and a few short epochs."""
    trainer = Trainer()
    loader = DataLoader(Files(6), batch_size=32, num_workers=2)
    for _ in range(12):
        with trainer.truth.training():
            for data, target in trainer.truth.batches(loader):
                trainer.step(data, target)
    trainer.truth.tell()


class Shuffled(IterableDataset):
    """A stream behind a buffer of random order, as libraries of streams have it."""

    def __init__(self, source, size=64):
        self.source, self.size = source, size

    def __iter__(self):
        order, buffer = random.Random(3), []
        for item in self.source:
            if len(buffer) < self.size:
                buffer.append(item)
                continue
            place = order.randrange(self.size)
            yield buffer[place]
            buffer[place] = item
        order.shuffle(buffer)
        yield from buffer


def shuffle_buffer():
    trainer = Trainer()
    loader = DataLoader(Shuffled(Stream(400)), batch_size=24)
    for _ in range(EPOCHS):
        with trainer.truth.training():
            for data, target in trainer.truth.batches(loader):
                trainer.step(data, target)
    trainer.truth.tell()


def unput_together():
    """torchvision's detection reference: the batch is a tuple of lists of images."""
    trainer = Trainer()
    loader = DataLoader(
        Images(), batch_size=4, shuffle=True, collate_fn=lambda rows: tuple(zip(*rows, strict=True))
    )
    for _ in range(EPOCHS):
        with trainer.truth.training():
            for images, targets in trainer.truth.batches(loader):
                trainer.step(torch.stack(images), torch.tensor(targets))
    trainer.truth.tell()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
