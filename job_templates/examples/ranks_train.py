"""Trains a small model with several ranks on each GPU; gradients are averaged on two levels.

sbatch ../ranks.sbatch ranks_train.py                  by torch.distributed
REDUCTION=mpi sbatch ../ranks.sbatch ranks_train.py    by MPI (mpi4py)
"""

import argparse
import copy
import os

import torch

RANKS_PER_GPU = int(os.environ["DLQUEUE_RANKS_PER_GPU"])  # the template sets it


class TorchRanks:
    """DistributedDataParallel, whose hook averages each bucket of gradients on two levels."""

    def __init__(self):
        import torch.distributed as dist

        from slurm_ext.ranks.reduction import TwoLevelReduction

        dist.init_process_group("gloo")
        self.dist, self.rank, self.world = dist, dist.get_rank(), dist.get_world_size()
        self.reduction = TwoLevelReduction(RANKS_PER_GPU)

    def wrap(self, model):
        from torch.nn.parallel import DistributedDataParallel

        from slurm_ext.ranks.reduction import mean_hook

        parallel = DistributedDataParallel(model)
        parallel.register_comm_hook(self.reduction, mean_hook)
        return parallel

    def reduce(self, model):
        """Nothing is left to do: the hook ran while the gradients were computed."""

    def plain_mean(self, values):
        self.dist.all_reduce(values)
        return values / self.world

    def close(self):
        self.dist.destroy_process_group()


class MpiRanks:
    """Averages all gradients after the backward pass, in one array."""

    def __init__(self):
        from mpi4py import MPI

        from slurm_ext.ranks.mpi import MpiTwoLevelReduction

        self.comm = MPI.COMM_WORLD
        self.rank, self.world = self.comm.rank, self.comm.size
        self.reduction = MpiTwoLevelReduction(self.comm, RANKS_PER_GPU)
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        local = self.comm.Split_type(MPI.COMM_TYPE_SHARED).rank
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[local // RANKS_PER_GPU % len(gpus)]

    def wrap(self, model):
        return model

    def reduce(self, model):
        values = self.reduction.mean_(gradients(model).cpu().numpy())
        parts = torch.from_numpy(values).split([p.numel() for p in model.parameters()])
        for parameter, part in zip(model.parameters(), parts, strict=True):
            parameter.grad.copy_(part.view_as(parameter))

    def plain_mean(self, values):
        return torch.from_numpy(self.comm.allreduce(values.cpu().numpy())) / self.world

    def close(self):
        pass


def gradients(model):
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def batch(rank, number, device):
    generator = torch.Generator().manual_seed(1000 * number + rank)
    return torch.randn(16, 31, generator=generator).to(device)


def difference(ranks, model, parallel, rows):
    """The largest difference between these gradients and those of a plain all-reduce."""
    alone = copy.deepcopy(model)
    alone.zero_grad()
    alone(rows).square().mean().backward()
    plain = ranks.plain_mean(gradients(alone))
    parallel(rows).square().mean().backward()
    ranks.reduce(model)
    return float((gradients(model) - plain).abs().max())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--check", action="store_true", help="compare with a plain all-reduce")
    args = parser.parse_args()
    ranks = MpiRanks() if os.environ.get("REDUCTION") == "mpi" else TorchRanks()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(1)
    torch.manual_seed(7)  # every rank begins with the same model
    layers = torch.nn.Linear(31, 17), torch.nn.ReLU(), torch.nn.Linear(17, 5)
    model = torch.nn.Sequential(*layers).to(device)
    parallel = ranks.wrap(model)
    if args.check:
        largest = difference(ranks, model, parallel, batch(ranks.rank, 0, device))
        os.write(1, f"rank {ranks.rank} of {ranks.world}: difference {largest:.3e}\n".encode())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(args.steps):
        optimizer.zero_grad()
        loss = parallel(batch(ranks.rank, step, device)).square().mean()
        loss.backward()
        ranks.reduce(model)
        optimizer.step()
    os.write(1, f"rank {ranks.rank} of {ranks.world}: loss {float(loss):.4f}\n".encode())
    ranks.close()


if __name__ == "__main__":
    main()
