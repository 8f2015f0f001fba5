"""One training on the device as a framework's documentation writes it, with a count of its own.

    python -m contrib.bench.gpu.programs.frameworks DEVICE NAME

Its last line is `TRUTH {...}`, as contrib/bench/foreign has it: samples, steps, seconds until the
device was done; `losses` is made of the last loss.
"""

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from contrib.bench.gpu.programs.device import Device
from contrib.bench.gpu.programs.kits import BY_KITS
from contrib.bench.gpu.programs.work import EPOCHS, Work, epochs, stepper


def plain(work: Work) -> None:
    """Torch's own tutorial."""
    net = work.on_device()
    epochs(work, stepper(net, torch.optim.SGD(net.parameters(), 1e-3)), net)


def mixed(work: Work) -> None:
    """Automatic mixed precision, whose scaler leaves out steps."""
    net = work.on_device()
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    scaler = torch.amp.GradScaler(work.device.name, enabled=work.device.is_cuda)
    half = torch.float16 if work.device.is_cuda else torch.bfloat16

    def step(images: Any, classes: Any) -> Any:
        with torch.autocast(work.device.name, dtype=half):
            loss = cross_entropy(net(images), classes)
        optimizer.zero_grad()
        torch.autograd.backward(scaler.scale(loss))
        scaler.step(optimizer)
        scaler.update()
        return loss

    epochs(work, step, net)


def compiled(work: Work) -> None:
    """torch.compile, but for the kernels, which would take longer to make than to train."""
    net = work.on_device()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3, fused=True)
    epochs(work, stepper(torch.compile(net, backend="aot_eager"), optimizer), net)


def prefetched(work: Work) -> None:
    """NVIDIA's prefetcher: the next batch is uploaded on a stream of its own, one ahead."""
    net = work.on_device()
    step = stepper(net, torch.optim.SGD(net.parameters(), 1e-3))
    cuda: Any = torch.cuda  # its streams have no types
    stream = cuda.Stream() if work.device.is_cuda else None

    def uploaded(batches: Any) -> Any:
        batch = next(batches, None)
        if batch is None or stream is None:
            return batch
        with cuda.stream(stream):
            return work.moved(batch)

    for _ in range(EPOCHS):
        work.truth.begin()
        batches = iter(work.train)
        batch = uploaded(batches)
        while batch is not None:
            if stream is not None:
                cuda.current_stream().wait_stream(stream)
                for part in batch:  # else its memory is written again before the step has read it
                    part.record_stream(cuda.current_stream())
            images, classes = batch
            work.count(len(images), step(images, classes))
            batch = uploaded(batches)
        work.done()
        work.validate(net)


def graphed(work: Work) -> None:
    """A whole step as one CUDA graph, replayed: no Python runs in it."""
    net = work.on_device()
    step = stepper(net, torch.optim.SGD(net.parameters(), 1e-3))
    if not work.device.is_cuda:
        epochs(work, step, net)
        return
    images, classes = work.moved(next(iter(work.train)))
    cuda: Any = torch.cuda  # its streams and graphs have no types
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        for _ in range(3):
            step(images, classes)
    cuda.current_stream().wait_stream(side)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        loss = step(images, classes)

    def replayed(more: Any, labels: Any) -> Any:
        images.copy_(more)
        classes.copy_(labels)
        graph.replay()
        return loss

    epochs(work, replayed, net)


LOOPS: dict[str, Callable[[Work], None]] = {
    "plain": plain,
    "mixed": mixed,
    "compiled": compiled,
    "prefetched": prefetched,
    "graphed": graphed,
    **BY_KITS,
}


def main() -> None:
    """Train once."""
    work = Work(Device(sys.argv[1]))
    LOOPS[sys.argv[2]](work)
    work.tell()


if __name__ == "__main__":
    main()
