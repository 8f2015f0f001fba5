"""One rank of tests/ranks: reduces by two levels and flat, and prints the largest difference."""

import os
import sys

import numpy as np

RANKS_PER_GPU = 2


def by_torch() -> float:
    """Gradients of a DistributedDataParallel model with our hook, against its own allreduce."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    from slurm_ext.ranks.reduction import TwoLevelReduction, mean_hook

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    two = TwoLevelReduction(RANKS_PER_GPU)
    found = []
    for hook in (None, mean_hook):
        torch.manual_seed(7)
        model = torch.nn.Sequential(
            torch.nn.Linear(31, 17), torch.nn.ReLU(), torch.nn.Linear(17, 5)
        )
        parallel = DistributedDataParallel(model)
        if hook is not None:
            parallel.register_comm_hook(two, hook)
        data = torch.randn(16, 31, generator=torch.Generator().manual_seed(dist.get_rank()))
        parallel(data).square().mean().backward()
        found.append(
            torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        )
    difference = float((found[0] - found[1]).abs().max())
    dist.destroy_process_group()
    return difference


def by_mpi() -> float:
    """The mean of random arrays, against a flat Allreduce."""
    from mpi4py import MPI

    from slurm_ext.ranks.mpi import MpiTwoLevelReduction

    comm = MPI.COMM_WORLD
    values = np.random.default_rng(comm.rank).normal(size=10_001).astype(np.float32)
    flat = np.empty_like(values)
    comm.Allreduce(values, flat)
    mean = MpiTwoLevelReduction(comm, RANKS_PER_GPU).mean_(values)
    return float(comm.allreduce(np.abs(mean - flat / comm.size).max(), MPI.MAX))


if __name__ == "__main__":
    difference = by_mpi() if sys.argv[1] == "mpi" else by_torch()
    os.write(1, f"difference {difference:.3e}\n".encode())  # whole lines, whoever else writes
