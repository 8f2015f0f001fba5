"""Processes that train together in other ways than by DDP: `...visitors.worlds NAME`, torchrun."""

import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.utils.data import DataLoader, Subset
from torch.utils.data.distributed import DistributedSampler

from contrib.bench.foreign.programs.data import Images, model
from contrib.bench.foreign.programs.truth import Truth, same_each_time

STEP_S = 0.008  # as if an accelerator computed


def _fit(net, optimizer, loader, before_step=lambda: None, after_step=lambda: None):
    truth = Truth()
    for _ in range(3):
        with truth.training():
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(net(x), y)
                loss.backward()
                before_step()
                optimizer.step()
                after_step()
                truth.trained(len(x), loss.item())
                time.sleep(STEP_S)
    truth.tell()


def _shared(part):
    """This rank's loader."""
    return DataLoader(part, batch_size=16, sampler=DistributedSampler(part))


def _average(tensors):
    for tensor in tensors:
        dist.all_reduce(tensor)
        tensor.div_(dist.get_world_size())


def local_sgd():
    """Ranks train alone and average their weights at every eighth step."""
    dist.init_process_group("gloo")
    same_each_time()
    net, made = model(), []

    def average():
        made.append(None)
        if len(made) % 8 == 0:
            _average([parameter.data for parameter in net.parameters()])

    _fit(net, torch.optim.SGD(net.parameters(), 1e-3), _shared(Images(640)), after_step=average)
    dist.destroy_process_group()


def zero_redundancy():
    """Each rank keeps the optimiser's state of a part: DDP and ZeroRedundancyOptimizer."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    dist.init_process_group("gloo")
    same_each_time()
    net = torch.nn.parallel.DistributedDataParallel(model())
    optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.AdamW, lr=1e-3)
    _fit(net, optimizer, _shared(Images(640)))
    dist.destroy_process_group()


def _by_hand(rank, size, file):
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=size)
    torch.manual_seed(1234)
    net, data = model(), Images(640)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.5)
    mine = Subset(data, range(rank, len(data), size))
    _fit(
        net,
        optimizer,
        DataLoader(mine, batch_size=16, shuffle=True),
        lambda: _average([parameter.grad for parameter in net.parameters()]),
    )
    dist.destroy_process_group()


def averaged_by_hand(file):
    """The tutorial on distributed applications: forked ranks, `average_gradients`, seed 1234."""
    context = mp.get_context("fork")
    ranks = [context.Process(target=_by_hand, args=(rank, 2, file)) for rank in range(2)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()


def pipelined():
    """torch.distributed.pipelining: rank 0 reads pictures, rank 1 has labels and the loss."""
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    dist.init_process_group("gloo")
    same_each_time()
    rank, truth, whole = dist.get_rank(), Truth(), model()
    part = whole[:2] if rank == 0 else whole[2:]
    optimizer = torch.optim.SGD(part.parameters(), 1e-3)
    stage = PipelineStage(part, rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=F.cross_entropy)
    for _ in range(3):
        with truth.training():
            for x, y in DataLoader(Images(320), batch_size=16, drop_last=True):
                optimizer.zero_grad()
                losses = []
                if rank == 0:
                    schedule.step(x)
                else:
                    schedule.step(target=y, losses=losses)
                optimizer.step()
                loss = sum(map(float, losses))
                truth.trained(len(x), loss)
                time.sleep(STEP_S)
    if rank == 1:  # both read the same batches
        truth.tell()
    dist.barrier()
    dist.destroy_process_group()


def tensor_parallel():
    """Each rank has a part of every layer, and both read the same batches."""
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    dist.init_process_group("gloo")
    same_each_time()
    mesh = dist.init_device_mesh("cpu", (2,))
    net = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(768, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
    )
    parallelize_module(net, mesh, {"1": ColwiseParallel(), "3": RowwiseParallel()})
    truth = Truth()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3, foreach=False)
    for _ in range(3):
        with truth.training():
            for x, y in DataLoader(Images(320), batch_size=16):
                optimizer.zero_grad()
                loss = F.cross_entropy(net(x), y)
                loss.backward()
                optimizer.step()
                truth.trained(len(x), loss.item())
                time.sleep(STEP_S)
    if dist.get_rank() == 0:
        truth.tell()
    dist.barrier()
    dist.destroy_process_group()


def main(name):
    """Forked ranks find each other by a file."""
    if name != "averaged_by_hand":
        return globals()[name]()
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        return averaged_by_hand(f"{folder}/ranks")


if __name__ == "__main__":
    main(sys.argv[1])
