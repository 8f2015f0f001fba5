"""Several training processes: `python -m ...ranks NAME`, or torchrun."""

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
