"""Synthetic data: an item takes a millisecond to make and draws no random number."""

import time

import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

COST_S = 0.001


class Images(Dataset):
    """Small images and their labels."""

    def __init__(self, length=400, classes=10, transform=None):
        self.length, self.classes, self.transform = length, classes, transform

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        time.sleep(COST_S)
        image = torch.arange(3 * 16 * 16, dtype=torch.float32).reshape(3, 16, 16)
        image = torch.sin(image * (index % 17 + 1))
        return self.transform(image) if self.transform else image, index % self.classes


class Stream(IterableDataset):
    """The same items as a stream, divided among workers as torch's documentation does it."""

    def __init__(self, length=400):
        self.items = Images(length)

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for index in range(first, len(self.items), step):
            yield self.items[index]


def model(classes=10):
    """A small convolutional network."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 7 * 7, classes),
    )


def tokens(length=20000, vocabulary=64):
    """A text of numbers."""
    return (torch.arange(length) * 7919 % 104729) % vocabulary
