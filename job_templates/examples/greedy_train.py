"""Trains on small vectors with many workers: the number was copied from another project."""

import argparse

import torch
from accelerator import Accelerator, Tally, size
from torch.utils.data import DataLoader, Dataset


class Vectors(Dataset):
    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        row = torch.arange(4096, dtype=torch.float32).add(index)
        for _ in range(24):
            row = row.cos().mul(1.01)
        return row, index


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=size("EXAMPLE_EPOCHS", 3))
    parser.add_argument("--samples", type=int, default=size("EXAMPLE_SAMPLES", 3200))
    args = parser.parse_args()
    accelerator = Accelerator(0.04)
    loader = DataLoader(
        Vectors(args.samples), batch_size=args.batch_size, shuffle=True, num_workers=args.workers
    )
    tally = Tally()
    for epoch in range(args.epochs):
        ids = []
        for rows, indices in loader:
            accelerator.step(rows)
            ids += indices.tolist()
        tally.epoch(epoch, ids)
    tally.done()


if __name__ == "__main__":
    main()
