"""Steps of training with and without overlap, on two ranks over a limited link.

    python -m contrib.bench.spatial.over_link RANK WORLD SIZE TURNS FILE

One process a rank, in its own network namespace; turns of both kinds follow each other, so that
what else the machine does falls on both. FILE gets JSON: seconds of each step of each turn, what
the cost model predicts for its own choice and for none, and which layers it chose.
"""

import copy
import json
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from contrib.bench.spatial.networks import BenchUNet
from slurm_ext.spatial.convert import parallelise
from slurm_ext.spatial.geometry.mesh import Mesh
from slurm_ext.spatial.loss import GlobalLoss
from slurm_ext.spatial.measure import choose_mesh

STEPS, COLD = 4, 1


def compared(size: int, turns: int) -> dict[str, Any]:
    """All that FILE gets."""
    sizes, whole = (size, size, size), [dist.get_world_size(), 1, 1]
    build = BenchUNet(nn.BatchNorm3d)
    chosen = choose_mesh(
        lambda _: copy.deepcopy(build), sizes, 1, among=lambda one: list(one.space) == whole
    )
    mesh = Mesh(1, chosen.space)
    names = [name for name, layer in build.named_modules() if type(layer) is nn.Conv3d]
    kinds: dict[str, Collection[str]] = {"none": (), "chosen": chosen.overlap, "all": names}
    models = {
        kind: nn.parallel.DistributedDataParallel(
            parallelise(copy.deepcopy(build), mesh, overlap=overlap)
        )
        for kind, overlap in kinds.items()
    }
    x = mesh.part(torch.randn(1, 1, *sizes)).contiguous()
    seconds: dict[str, list[list[float]]] = {kind: [] for kind in kinds}
    for turn in range(turns):
        for kind in [*kinds] if turn % 2 else [*kinds][::-1]:
            seconds[kind].append(_steps_s(models[kind], mesh, x))
    return {"seconds": seconds, "chosen": chosen.overlap, "halo_s": chosen.halo_s}


def _steps_s(model: nn.Module, mesh: Mesh, x: torch.Tensor) -> list[float]:
    loss_of, found = GlobalLoss(nn.MSELoss(), mesh), []
    for _ in range(COLD + STEPS):
        dist.barrier()
        begin = time.perf_counter()
        model.zero_grad()
        torch.autograd.backward(loss_of(model(x), x))
        found.append(time.perf_counter() - begin)
    return found[COLD:]


def main() -> None:
    """Join the other rank, measure, write."""
    rank, world, size, turns = map(int, sys.argv[1:5])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group(
        "gloo", init_method="tcp://10.213.77.1:29642", rank=rank, world_size=world
    )
    Path(sys.argv[5]).write_text(json.dumps(compared(size, turns)), encoding="ascii")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
