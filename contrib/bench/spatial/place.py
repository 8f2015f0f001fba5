"""The device of a rank."""

import torch
import torch.distributed as dist


def device() -> torch.device:
    """The GPU that this rank took, over NCCL; else the CPU."""
    on_gpu = dist.is_initialized() and dist.get_backend() == "nccl"
    return torch.device("cuda" if on_gpu else "cpu")
