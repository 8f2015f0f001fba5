"""Several training processes: `python -m ...ranks NAME`, or torchrun."""

import contextlib
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from .data import Images, model
from .truth import Truth, same_each_time


def fit(net, loader, sampler, epochs=4):
    truth = Truth()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    for epoch in range(epochs):
        if sampler is not None:
            sampler.set_epoch(epoch)
        with truth.training():
            for data, target in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(net(data), target)
                loss.backward()
                optimizer.step()
                truth.trained(len(data), loss.item())
    truth.tell()


def torchrun():
    """Run by torchrun with two processes."""
    dist.init_process_group("gloo")
    same_each_time()
    data = Images(800)
    sampler = DistributedSampler(data)
    fit(DistributedDataParallel(model()), DataLoader(data, batch_size=16, sampler=sampler), sampler)
    dist.destroy_process_group()


def sharded():
    """FSDP2: each rank holds a part of the parameters."""
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo")
    same_each_time()
    net, data = model(), Images(800)
    fully_shard(net, mesh=dist.init_device_mesh("cpu", (2,)))
    sampler = DistributedSampler(data)
    fit(net, DataLoader(data, batch_size=16, sampler=sampler), sampler)
    dist.destroy_process_group()


def accumulated():
    """Gradients of four batches for each exchange, by `no_sync`; rank 0 alone validates."""
    dist.init_process_group("gloo")
    same_each_time()
    data, truth, net = Images(800), Truth(), DistributedDataParallel(model())
    sampler = DistributedSampler(data, drop_last=True)
    loader = DataLoader(data, batch_size=8, sampler=sampler, drop_last=True)
    held_out = DataLoader(Images(200), batch_size=50)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        with truth.training():
            for number, (x, y) in enumerate(truth.batches(loader), 1):
                last = number % 4 == 0 or number == len(loader)
                with contextlib.nullcontext() if last else net.no_sync():
                    loss = F.cross_entropy(net(x), y) / 4
                    loss.backward()
                if last:
                    optimizer.step()
                    optimizer.zero_grad()
                truth.trained(len(x), loss.item())
        if dist.get_rank() == 0:
            with torch.no_grad():
                sum((net.module(x).argmax(1) == y).sum() for x, y in held_out)
        dist.barrier()
    truth.tell()
    dist.destroy_process_group()


def uneven():
    """Ranks whose data ends at different times, joined by DDP's `Join`."""
    from torch.distributed.algorithms.join import Join

    dist.init_process_group("gloo")
    same_each_time()
    net, truth = DistributedDataParallel(model()), Truth()
    loader = DataLoader(Images(500 + 100 * dist.get_rank()), batch_size=16, shuffle=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    for _ in range(3):
        with truth.training(), Join([net]):
            for x, y in truth.batches(loader):
                optimizer.zero_grad()
                loss = F.cross_entropy(net(x), y)
                loss.backward()
                optimizer.step()
                truth.trained(len(x), loss.item())
    truth.tell()
    dist.destroy_process_group()


def _spawned(rank, size):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ["BENCH_PORT"])
    dist.init_process_group("gloo", rank=rank, world_size=size)
    same_each_time()
    data = Images(800)
    sampler = DistributedSampler(data, num_replicas=size, rank=rank)
    fit(DistributedDataParallel(model()), DataLoader(data, batch_size=16, sampler=sampler), sampler)
    dist.destroy_process_group()


def spawned():
    """The DDP tutorial's mp.spawn."""
    mp.spawn(_spawned, args=(2,), nprocs=2, join=True)


def _hog(rank, net):
    torch.manual_seed(rank)
    fit(net, DataLoader(Images(), batch_size=16, shuffle=True), None)


def hogwild():
    """examples/mnist_hogwild: processes that share a model and know nothing of each other."""
    mp.set_start_method("spawn", force=True)
    net = model()
    net.share_memory()
    processes = [mp.Process(target=_hog, args=(rank, net)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
