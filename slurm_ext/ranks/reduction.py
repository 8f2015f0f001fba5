"""Gradients of several ranks a GPU over torch.distributed: neighbours share memory, leaders reduce.

two = TwoLevelReduction(ranks_per_gpu)       # after init_process_group("gloo"), on every rank
model.register_comm_hook(two, mean_hook)         # model: DistributedDataParallel over that group
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch._C._distributed_c10d import GradBucket  # DistributedDataParallel hands it over
    from torch.distributed import ProcessGroup

    from slurm_ext.ranks.shared import SharedMemory


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
        self.gpus = len(firsts)
        self._shared: dict[str, SharedMemory | None] = {}  # by the device's type; None: it cannot
        self._shares = ranks_per_gpu > 1

    def sum_(self, values: torch.Tensor) -> torch.Tensor:
        """`values` (any shape) becomes the sum over all ranks, in place; returns it."""
        shared = self._memory_for(values)
        if shared is None:
            return self._over_gloo(values)
        import torch

        flat = values.contiguous().view(-1)
        for part in torch.split(flat, shared.region_bytes // values.element_size()):
            shared.sum_(part)
            if self.gpus > 1:
                self._reduce_leaders(part)
                shared.tell_(part)
        return (
            values if flat.data_ptr() == values.data_ptr() else values.copy_(flat.view_as(values))
        )

    def shares(self, device: str) -> bool:
        """True if neighbours add values of such a device ("cuda", "cpu") in memory that they share.

        False before the first sum of such values, which makes that memory.
        """
        return self._shared.get(device) is not None

    def _memory_for(self, values: torch.Tensor) -> SharedMemory | None:
        """The neighbours' memory, large enough for the values; None where they cannot share any."""
        from slurm_ext.ranks.shared import MOST_BYTES, shared_memory

        size, device = values.numel() * values.element_size(), values.device
        shared = self._shared.get(device.type)
        enough = shared.region_bytes if shared else 0
        if not self._shares or (device.type in self._shared and shared is None):
            return None
        if enough < min(size, MOST_BYTES):
            shared = self._shared[device.type] = shared_memory(device, size, self.neighbours)
        return shared

    def _reduce_leaders(self, values: torch.Tensor) -> None:
        import torch.distributed as dist

        if self.leads:
            dist.all_reduce(values, group=self.leaders)

    def _over_gloo(self, values: torch.Tensor) -> torch.Tensor:
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

    gpu = torch.cuda.is_available() and dist.is_nccl_available()
    return "cpu:gloo,cuda:nccl" if gpu else "gloo"  # sums of the host's values go the same way
