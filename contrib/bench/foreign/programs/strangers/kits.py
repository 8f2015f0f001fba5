"""Toolkits with a loop or a loader of their own: `python -m ...strangers.kits NAME`."""

import logging
import sys
import warnings

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.utils.data import DataLoader, TensorDataset

from contrib.bench.foreign.programs import declare
from contrib.bench.foreign.programs.data import Images, model
from contrib.bench.foreign.programs.truth import Truth, same_each_time


def lightning_combined():
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
    module = Module()
    L.Trainer(
        max_epochs=3,
        accelerator="cpu",
        val_check_interval=0.5,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    ).fit(module, CombinedLoader(loaders, "max_size_cycle"), DataLoader(Images(80), batch_size=40))
    truth.tell()


def cached_features():
    """A frozen body's features are computed first, then a head is trained on them."""
    same_each_time()
    body, truth = torch.nn.Sequential(*model()[:3]), Truth()
    with torch.no_grad():
        found = [(body(x), y) for x, y in DataLoader(Images(600), batch_size=40)]
    features = TensorDataset(torch.cat([x for x, _ in found]), torch.cat([y for _, y in found]))
    head = torch.nn.Sequential(
        torch.nn.Linear(392, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 10)
    )
    optimizer = torch.optim.SGD(head.parameters(), lr=1e-3)
    for _ in range(40):
        with truth.training():
            for x, y in DataLoader(features, batch_size=32, shuffle=True):
                loss = F.cross_entropy(head(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                truth.trained(len(x), loss.item())
    truth.tell()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    declare()
    globals()[sys.argv[1]]()
