"""A training whose gated workers are killed once each has made batches."""

import torch
from torch.utils.data import DataLoader, TensorDataset, dataloader

from slurm_ext.probe.workers.gate import Gate
from slurm_ext.probe.workers.gated import gated_kind

if __name__ == "__main__":
    loader = DataLoader(TensorDataset(torch.zeros(64, 2)), num_workers=2)
    kind = gated_kind(dataloader._MultiProcessingDataLoaderIter)
    batches = kind(loader, Gate("/nowhere/workers", 2))
    for _ in range(8):
        next(batches)
    for worker in batches._workers:
        worker.kill()
        worker.join()
