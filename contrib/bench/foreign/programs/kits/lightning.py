"""Lightning's Trainer: `python -m ...kits.lightning NAME`."""

import time

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.utils.data import DataLoader, TensorDataset

from contrib.bench.foreign.programs.data import Images, model
from contrib.bench.foreign.programs.kits import STEP_S, start
from contrib.bench.foreign.programs.truth import Truth, same_each_time


def _trainer(**more):
    """A Trainer on the CPU that prints and writes nothing."""
    import lightning as L  # noqa: N812 - its documentation imports it so

    return L.Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **more,
    )


def _classifier():
    import lightning as L  # noqa: N812 - its documentation imports it so

    class Module(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net, self.truth = model(), Truth()

        def training_step(self, batch, _):
            x, y = batch
            loss = F.cross_entropy(self.net(x), y)
            self.truth.trained(len(x), loss.item())
            return loss

        def validation_step(self, batch, _):
            self.log("val", F.cross_entropy(self.net(batch[0]), batch[1]))

        def on_train_epoch_start(self):
            self.truth.begin()

        def on_validation_epoch_start(self):
            if not self.trainer.sanity_checking:
                self.truth.end()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-3)

    module = Module()
    loader = DataLoader(Images(), batch_size=16, shuffle=True)
    _trainer(max_epochs=3).fit(module, loader, DataLoader(Images(100), batch_size=50))
    module.truth.tell()


def classifier():
    same_each_time()
    _classifier()


def seeded():
    import lightning as L  # noqa: N812 - its documentation imports it so

    L.seed_everything(42, workers=True)
    _classifier()


def combined():
    """Two loaders by name, steps by hand with two optimisers, validation in mid-epoch."""
    import lightning as L  # noqa: N812 - its documentation imports it so
    from lightning.pytorch.utilities import CombinedLoader

    same_each_time()
    truth = Truth()

    class Module(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False
            self.one, self.other = model(), model()

        def training_step(self, batch, _):
            steppers = self.optimizers()
            (x, y), (more, _) = batch["labelled"], batch["plain"]
            for net, stepper in zip((self.one, self.other), steppers, strict=True):
                loss = F.cross_entropy(net(x + 0.1 * more.mean()), y)
                stepper.zero_grad()
                self.manual_backward(loss)
                stepper.step()
            truth.trained(len(x), loss.item())

        def validation_step(self, batch, _):
            self.log("val", F.cross_entropy(self.one(batch[0]), batch[1]))

        def on_train_epoch_start(self):
            truth.begin()

        def on_validation_start(self):
            if not self.trainer.sanity_checking:
                truth.end()

        def on_validation_end(self):
            if not self.trainer.sanity_checking:
                truth.begin()

        def on_train_epoch_end(self):
            truth.end()

        def configure_optimizers(self):
            return [torch.optim.SGD(net.parameters(), 1e-3) for net in (self.one, self.other)]

    loaders = {
        "labelled": DataLoader(Images(320), batch_size=16, shuffle=True),
        "plain": DataLoader(Images(160), batch_size=8, shuffle=True),
    }
    trainer = _trainer(max_epochs=3, val_check_interval=0.5)
    feed = CombinedLoader(loaders, "max_size_cycle")
    trainer.fit(Module(), feed, DataLoader(Images(80), batch_size=40))
    truth.tell()


def forecasting():
    """pytorch-forecasting in small: a loader that a data set of series makes."""
    import lightning as L  # noqa: N812 - its documentation imports it so

    same_each_time()
    series = torch.sin(torch.arange(40.0)[None] / 4 + torch.arange(640.0)[:, None])
    truth = Truth()

    class Net(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(32, 8)

        def training_step(self, batch, _):
            x, y = batch[0][:, :32], batch[0][:, 32:]
            loss = F.l1_loss(self.layer(x), y)
            truth.trained(len(x), loss.item())
            time.sleep(STEP_S)
            return loss

        def on_train_start(self):
            truth.begin()

        def on_train_end(self):
            truth.end()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 1e-3)

    loader = DataLoader(TensorDataset(series), batch_size=16, shuffle=True, drop_last=True)
    limits = {"max_epochs": 10, "limit_train_batches": 20}
    _trainer(gradient_clip_val=0.1, accumulate_grad_batches=2, **limits).fit(Net(), loader)
    truth.tell()


if __name__ == "__main__":
    start(globals())
