"""A loop of one's own on what a kit has prepared: `python -m ...kits.prepared NAME`."""

import time
from operator import methodcaller

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.utils.data import DataLoader

from contrib.bench.foreign.programs.data import Images, Stream, model
from contrib.bench.foreign.programs.kits import STEP_S, start
from contrib.bench.foreign.programs.truth import Truth, same_each_time

_BACKWARD = methodcaller("backward")


class _Loop:
    """A net and its optimiser, stepped batch by batch."""

    def __init__(self, net, optimizer, backward=_BACKWARD, step_s=STEP_S):
        self.net, self.optimizer, self.backward, self.step_s = net, optimizer, backward, step_s
        self.truth = Truth()

    def step(self, x, y):
        loss = F.cross_entropy(self.net(x), y)
        self.backward(loss)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.truth.trained(len(x), loss.item())
        time.sleep(self.step_s)

    def fit(self, loader):
        for _ in range(3):
            with self.truth.training():
                for x, y in loader:
                    self.step(x, y)
        self.truth.tell()


def accelerate():
    """Its nlp_example: set_seed(42), prepare, backward."""
    from accelerate import Accelerator
    from accelerate.utils import set_seed

    set_seed(42)
    accelerator, net = Accelerator(cpu=True), model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
    loader = DataLoader(Images(), batch_size=16, shuffle=True)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    _Loop(net, optimizer, accelerator.backward, step_s=0).fit(loader)


def accelerate_dispatched():
    """A stream whose batches the main process hands out; gradients clipped, steps at most."""
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration

    same_each_time()
    handed_out = DataLoaderConfiguration(dispatch_batches=True)
    accelerator, net = Accelerator(cpu=True, dataloader_config=handed_out), model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
    net, optimizer, loader = accelerator.prepare(
        net, optimizer, DataLoader(Stream(480), batch_size=16)
    )

    def clipped(loss):
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(net.parameters(), 1.0)

    _Loop(net, optimizer, clipped).fit(loader)


def opacus():
    """Differential privacy: batches drawn item by item, so that each has another size."""
    from opacus import PrivacyEngine

    same_each_time()
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(768, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    loader = DataLoader(Images(480), batch_size=16)
    net, optimizer, loader = PrivacyEngine().make_private(
        module=net, optimizer=optimizer, data_loader=loader, noise_multiplier=1.1, max_grad_norm=1.0
    )
    _Loop(net, optimizer).fit(loader)


def fabric():
    """Lightning's Fabric: a loop of one's own, `setup`, `backward`; validations in mid-epoch."""
    import lightning as L  # noqa: N812 - its documentation imports it so

    L.seed_everything(42)
    fabric = L.Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    net = model()
    net, optimizer = fabric.setup(net, torch.optim.Adam(net.parameters(), 1e-3))
    train, check = fabric.setup_dataloaders(
        DataLoader(Images(320), batch_size=16, shuffle=True), DataLoader(Images(80), batch_size=40)
    )
    loop = _Loop(net, optimizer, fabric.backward)
    for _ in range(3):
        net.train()
        loop.truth.begin()
        for number, (x, y) in enumerate(train):
            loop.step(x, y)
            if number == 9:
                loop.truth.end()
                net.eval()
                with torch.no_grad():
                    for pictures, _ in check:
                        net(pictures)
                net.train()
                loop.truth.begin()
        loop.truth.end()
    loop.truth.tell()


if __name__ == "__main__":
    start(globals())
