"""Trains a 3-D network whose volumes are divided among ranks; on one rank, the serial training.

sbatch --ntasks=4 ../spatial.sbatch spatial_train.py --network unet --size 64
sbatch --ntasks=4 ../spatial.sbatch spatial_train.py --mesh 2x2x1x1      (2 data x 2x1x1 space)

Volumes are made up on the first start: sums of waves, whose strengths are what CosmoFlow finds, and
whose crests are what the U-Net marks.
"""

import argparse
import os
from contextlib import suppress
from dataclasses import replace

import numpy as np
import torch
import torch.distributed as dist
from spatial_networks import network
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from slurm_ext.spatial.checkpoint import load, save
from slurm_ext.spatial.convert import parallelise
from slurm_ext.spatial.geometry.errors import SpatialError
from slurm_ext.spatial.geometry.mesh import Mesh
from slurm_ext.spatial.launch import start
from slurm_ext.spatial.loss import GlobalLoss
from slurm_ext.spatial.measure import choose_mesh, measured_cluster
from slurm_ext.spatial.verify import check_small
from slurm_ext.spatial.volumes import Slabs, sampler


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", choices=["unet", "cosmoflow"], default="unet")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--batch", type=int, default=1, help="samples of a step on one group")
    parser.add_argument("--accumulate", type=int, default=1, help="steps between updates")
    parser.add_argument("--mesh", help="data x space, as 1x2x1x1; without it, chosen")
    parser.add_argument(
        "--overlap", default="", help="convolutions, as a,b; or auto: where it pays"
    )
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--folder", default=os.getcwd(), help="of volumes and checkpoint")
    parser.add_argument("--no-check", action="store_true", help="no comparison with serial first")
    return parser.parse_args()


def volumes(args, rank):
    """Paths of volumes and targets; the first rank makes them, one sample at a time."""
    names = [f"{kind}-{args.size}-{args.samples}.npy" for kind in ("volumes", args.network)]
    paths = [os.path.join(args.folder, name) for name in names]
    if rank == 0 and not all(map(os.path.exists, paths)):
        shape = (args.samples, 1, *[args.size] * 3)
        unet = args.network == "unet"
        target = (shape, np.int8) if unet else ((args.samples, 3), np.float32)
        kinds = [(shape, np.float32), target]
        files = [
            np.lib.format.open_memmap(path + ".new", "w+", shape=shape, dtype=dtype)
            for path, (shape, dtype) in zip(paths, kinds, strict=True)
        ]
        for number in range(args.samples):
            volume, strengths = waves(args.size, number)
            files[0][number, 0] = volume
            files[1][number] = volume > 0.5 if unet else strengths
        for path in paths:
            os.replace(path + ".new", path)
    dist.barrier()
    return paths


def waves(size, seed):
    """Three waves along each axis: a volume, and how strong each was."""
    random = np.random.default_rng(seed)
    strengths = random.uniform(0.2, 1.0, 3)
    at = np.linspace(0, 2 * np.pi, size, dtype=np.float32)
    rows = [np.sin(at[None] * (k + 1) + random.uniform(0, 6, (3, 1))) for k in range(3)]
    parts = [s * np.einsum("i,j,k->ijk", *row) for s, row in zip(strengths, rows, strict=True)]
    return sum(parts).astype(np.float32), strengths


def divided(args, device):
    """The mesh, and layers that compute while their halo travels: as told, or the quickest."""
    told = args.mesh and tuple(int(part) for part in args.mesh.split("x"))
    if told and args.overlap != "auto":
        return Mesh(told[0], told[1:]), [name for name in args.overlap.split(",") if name]
    ranks, cluster = dist.get_world_size(), measured_cluster()
    if told:
        cluster = replace(cluster, memory_bytes=float("inf"))  # it is not refused for a prediction

    def chosen(groups):
        with torch.autocast(device.type, torch.bfloat16, enabled=args.bf16):
            return choose_mesh(
                lambda sizes: network(args.network, sizes[0])[0].to(device),
                (args.size,) * 3,
                args.batch * groups,
                cluster,
                among=lambda one: not told or (one.data, *one.space) == told,
            )

    counts = [told[0]] if told else [n for n in range(ranks, 0, -1) if ranks % n == 0]
    best = first(chosen, counts)
    return Mesh(best.data, best.space), best.overlap


def first(chosen, counts):
    """The mesh of the first count of groups for which one fits: the largest batch that does."""
    for groups in counts[:-1]:
        with suppress(SpatialError):  # alike on all ranks
            return chosen(groups)
    return chosen(counts[-1])


def train(args, mesh, model, criterion, data, device):
    loss_of = GlobalLoss(criterion, mesh).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    path = os.path.join(args.folder, f"{args.network}-{args.size}.pt")
    begin = load(path, model, optimizer).get("epoch", 0)
    order = sampler(data, mesh, shuffle=True)
    loader = DataLoader(data, args.batch, sampler=order, num_workers=args.workers, drop_last=True)
    for epoch in range(begin, args.epochs):
        order.set_epoch(epoch)
        losses = [step(args, model, loss_of, optimizer, *one, device) for one in enumerate(loader)]
        mean = mesh.mean_over_all(torch.stack(losses).mean())
        save(path, model, optimizer, epoch=epoch + 1)
        if mesh.rank == 0:
            print(f"epoch {epoch} on {mesh}: loss {mean:.6f}", flush=True)


def step(args, model, loss_of, optimizer, number, batch, device):
    """One micro-step; the last of `--accumulate` ones averages the gradients and updates."""
    volume, target = (tensor.to(device) for tensor in batch)
    if target.dim() == 5:
        target = target[:, 0].long()
    last = (number + 1) % args.accumulate == 0
    model.require_backward_grad_sync = last  # as no_sync() does
    with torch.autocast(device.type, torch.bfloat16, enabled=args.bf16):
        loss = loss_of(model(volume).float(), target)
    (loss / args.accumulate).backward()
    if last:
        optimizer.step()
        optimizer.zero_grad()
    return loss.detach()


def main():
    args = arguments()
    device = start()
    mesh, overlap = divided(args, device)
    if not args.no_check:  # a network that slabs would train wrongly ends here, in words
        check_small(
            lambda sizes: network(args.network, sizes[0])[0].to(device), (args.size,) * 3, mesh
        )
    model, criterion = network(args.network, args.size)
    model = DistributedDataParallel(parallelise(model.to(device), mesh, overlap=overlap))
    train(args, mesh, model, criterion, Slabs(mesh, *volumes(args, mesh.rank)), device)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
