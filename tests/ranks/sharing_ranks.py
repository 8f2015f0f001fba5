"""Ranks that sum values over memory that they share, and without any: what differs is printed."""

import hashlib
import sys

import torch
import torch.distributed as dist

from slurm_ext.ranks import shared
from slurm_ext.ranks.reduction import TwoLevelReduction

SIZES = (1, 7, 1 << 18, (1 << 23) + 5)  # the last one is more than a region


def values(size: int, rank: int) -> torch.Tensor:
    """Numbers of this rank."""
    return torch.randn(size, generator=torch.Generator().manual_seed(rank))


def furthest(two: TwoLevelReduction) -> float:
    """The largest difference from a plain sum."""
    found = 0.0
    for size in SIZES:
        own = two.sum_(values(size, dist.get_rank()))
        plain = torch.stack([values(size, rank) for rank in range(two.world)]).sum(0)
        found = max(found, float((own - plain).abs().max()))
    return found


def others(two: TwoLevelReduction) -> bool:
    """Halves, and values that do not lie in one piece."""
    turned = torch.ones(8, 3).t()
    halves = torch.ones(5, 2, dtype=torch.float16)
    return bool(two.mean_(turned).eq(1).all()) and bool(two.sum_(halves).eq(two.world).all())


def main() -> None:
    """Print what this rank found."""
    if sys.argv[2] == "another node":
        opened = shared._opened  # each sees a /dev/shm of its own
        shared._opened = lambda handle, *args: opened(f"{handle}-elsewhere", *args)
    elif dist.get_rank() == 1:  # one of them cannot
        shared._FOLDER = sys.argv[2]  # a folder that is not there
    two = TwoLevelReduction(int(sys.argv[1]))
    far, fine = furthest(two), others(two)
    bits = hashlib.sha256(two.sum_(values(999, dist.get_rank())).numpy().tobytes()).hexdigest()
    shares = two.shares("cpu")
    sys.stdout.write(f"shares {shares} far {far} fine {fine} bits {bits[:8]}\n")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    main()
    dist.destroy_process_group()
