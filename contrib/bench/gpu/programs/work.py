"""The shared parts of the programs of `frameworks`: network, loaders, a count of their own.

The loop never asks for a loss before its end, so that the host runs ahead of the device.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from contrib.bench.foreign.programs.truth import Truth, same_each_time
from contrib.bench.gpu.programs.device import Device
from contrib.bench.gpu.programs.network import network
from contrib.bench.gpu.programs.samples import CLASSES

EPOCHS, STEPS, CHECKS = 3, 100, 10  # of an epoch; batches of a validation
WORKERS = 2


class Pictures(torch.utils.data.Dataset[Any]):
    """Images of a bank that is made once, and their labels."""

    def __init__(self, device: Device, batches: int) -> None:
        self.batch, side = device.size(64, 4), device.size(160, 32)
        self.length = batches * self.batch
        self.bank = torch.randn(8, 3, side, side, generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.bank[index % 8], index % CLASSES


class Work:
    """The device, the network, its loaders, and the count."""

    def __init__(self, device: Device) -> None:
        self.device, self.truth, self.loss = device, Truth(), torch.zeros(())
        same_each_time()
        torch.backends.cudnn.deterministic = True
        self.net: Any = network(device.size(32, 4))
        train, check = Pictures(device, STEPS), Pictures(device, CHECKS)
        words: dict[str, Any] = {"batch_size": train.batch, "pin_memory": device.is_cuda}
        self.train: Any = DataLoader(train, num_workers=WORKERS, **words)
        self.check: Any = DataLoader(check, **words)

    def on_device(self) -> Any:
        """The network, moved."""
        self.net = self.net.to(self.device.name)
        return self.net

    def moved(self, batch: Any) -> tuple[Any, Any]:
        """A batch on the device, which the host does not wait for."""
        images, classes = (part.to(self.device.name, non_blocking=True) for part in batch)
        return images, classes

    def count(self, samples: int, loss: Any) -> None:
        """One step was begun."""
        self.truth.samples, self.truth.steps = self.truth.samples + samples, self.truth.steps + 1
        self.loss = loss.detach()

    def done(self) -> None:
        """An epoch has ended on the device, too."""
        self.device.synchronise()
        self.truth.end()

    def validate(self, net: Any) -> None:
        """A pass without gradients."""
        net.eval()
        with torch.no_grad():
            for batch in self.check:
                net(self.moved(batch)[0])
        net.train()

    def tell(self) -> None:
        """Print the count; the last loss stands for all."""
        self.truth.trained(0, self.loss)
        self.truth.steps -= 1
        self.truth.tell()


def epochs(work: Work, step: Any, net: Any) -> None:
    """Three passes with a validation after each."""
    for _ in range(EPOCHS):
        work.truth.begin()
        for batch in work.train:
            images, classes = work.moved(batch)
            work.count(len(images), step(images, classes))
        work.done()
        work.validate(net)


def stepper(net: Any, optimizer: Any) -> Callable[[Any, Any], Any]:
    """One step; its loss."""

    def step(images: Any, classes: Any) -> Any:
        loss = cross_entropy(net(images), classes)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        return loss

    return step
