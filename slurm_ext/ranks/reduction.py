"""Gradients of several ranks a GPU over torch.distributed: leaders reduce, the others share memory.

two = TwoLevelReduction(ranks_per_gpu)       # after init_process_group("gloo"), on every rank
model.register_comm_hook(two, mean_hook)         # model: DistributedDataParallel over that group
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch._C._distributed_c10d import GradBucket  # DistributedDataParallel hands it over
    from torch.distributed import ProcessGroup


class TwoLevelReduction:
    """The groups of one layout: ranks g*R to g*R + R - 1 share GPU g, and g*R leads them.

    Every rank makes it at the same point, as `torch.distributed.new_group` wants. Raises ValueError
    where the ranks do not fill the GPUs evenly.
    """

    def __init__(self, ranks_per_gpu: int) -> None:
        import torch.distributed as dist

        world, rank = dist.get_world_size(), dist.get_rank()
        if ranks_per_gpu < 1 or world % ranks_per_gpu:
            raise ValueError(f"{world} ranks cannot be {ranks_per_gpu} on each GPU")
        self.world, self.leader = world, rank - rank % ranks_per_gpu
        self.leads = rank == self.leader
        firsts = range(0, world, ranks_per_gpu)
        groups = [dist.new_group(list(range(g, g + ranks_per_gpu)), backend="gloo") for g in firsts]
        self.neighbours: ProcessGroup = groups[rank // ranks_per_gpu]
        self.leaders: ProcessGroup = dist.new_group(list(firsts), backend=_leaders_backend())

    def sum_(self, values: torch.Tensor) -> torch.Tensor:
        """`values` (any shape) becomes the sum over all ranks, in place; returns it."""
        import torch.distributed as dist

        # Gloo adds in the host's memory; a GPU's values take the way over it.
        shared = values if values.device.type == "cpu" else values.cpu()
        dist.reduce(shared, self.leader, group=self.neighbours)
        if self.leads:
            total = shared if values.device.type == "cpu" else values.copy_(shared)
            dist.all_reduce(total, group=self.leaders)
            shared.copy_(total)
        dist.broadcast(shared, self.leader, group=self.neighbours)
        return values if shared is values else values.copy_(shared)

    def mean_(self, values: torch.Tensor) -> torch.Tensor:
        """The mean over all ranks, in place; returns it."""
        return self.sum_(values.div_(self.world))


def mean_hook(two: TwoLevelReduction, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """A communication hook of DistributedDataParallel: the bucket's mean over all ranks."""
    import torch

    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    future.set_result(two.mean_(bucket.buffer()))
    return future


# torch compares annotations with its classes, which here are words until torch is there.
mean_hook.__annotations__.clear()


def _leaders_backend() -> str:
    import torch
    import torch.distributed as dist

    return "nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
