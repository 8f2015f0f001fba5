"""Trains a large model on small vectors: the accelerator is busy, the loader keeps up."""

import configparser
import os

import torch
from accelerator import Accelerator, Tally, size
from torch.utils.data import DataLoader, Dataset

CONFIG = configparser.ConfigParser()
CONFIG.read(os.path.join(os.path.dirname(os.path.abspath(__file__)), "compute_train.ini"))
SAMPLES = size("EXAMPLE_COMPUTE_SAMPLES", size("EXAMPLE_SAMPLES", CONFIG["training"]["samples"]))
EPOCHS = size("EXAMPLE_EPOCHS", CONFIG["training"]["epochs"])


class Vectors(Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        row = torch.arange(4096, dtype=torch.float32).add(index)
        for _ in range(12):
            row = row.sin().mul(1.01)
        return row, index


def main():
    accelerator = Accelerator(0.06)
    loader = DataLoader(
        Vectors(),
        batch_size=CONFIG["loader"].getint("batch_size"),
        shuffle=True,
        num_workers=CONFIG["loader"].getint("workers"),
    )
    tally = Tally()
    for epoch in range(EPOCHS):
        ids = []
        for rows, indices in loader:
            accelerator.step(rows)
            ids += indices.tolist()
        tally.epoch(epoch, ids)
    tally.done()


if __name__ == "__main__":
    main()
