"""Lightning's other ways, and kits built on it: `python -m ...visitors.of_lightning NAME`."""

import shutil
import tempfile
import time

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.utils.data import DataLoader

from contrib.bench.foreign.programs import declare
from contrib.bench.foreign.programs.data import Images, model
from contrib.bench.foreign.programs.kits import STEP_S, start
from contrib.bench.foreign.programs.truth import Truth, same_each_time

if __name__ == "__mp_main__":
    declare()

_QUIET = {
    "accelerator": "cpu",
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


def _gan(L, truth):  # noqa: N803 - as it is imported
    """Two networks, each with its optimiser, stepped by hand."""

    class Gan(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False
            self.maker, self.critic = torch.nn.Linear(8, 768), torch.nn.Linear(768, 1)

        def training_step(self, batch, number):
            of_maker, of_critic = self.optimizers()
            real = batch[0].flatten(1)
            made = self.maker(torch.randn(len(real), 8))
            loss = F.softplus(-self.critic(real)).mean() + F.softplus(self.critic(made)).mean()
            self.toggle_optimizer(of_critic)
            of_critic.zero_grad()
            self.manual_backward(loss)
            of_critic.step()
            self.untoggle_optimizer(of_critic)
            if number % 3 == 2:
                self.toggle_optimizer(of_maker)
                of_maker.zero_grad()
                made = self.maker(torch.randn(len(real), 8))
                self.manual_backward(F.softplus(-self.critic(made)).mean())
                of_maker.step()
                self.untoggle_optimizer(of_maker)
            truth.trained(len(real), loss.item())
            time.sleep(STEP_S)

        def validation_step(self, batch, _number, dataloader_idx=0):  # noqa: ARG002 - asked for
            self.log("real", self.critic(batch[0].flatten(1)).mean())

        def on_train_epoch_start(self):
            truth.begin()

        def on_validation_start(self):
            if not self.trainer.sanity_checking:
                truth.end()

        def configure_optimizers(self):
            nets = self.maker, self.critic
            return [torch.optim.Adam(net.parameters(), 1e-3, betas=(0.5, 0.999)) for net in nets]

    return Gan()


def data_module():
    """A LightningDataModule with a new loader for each epoch; two optimisers by hand."""
    import lightning as L  # noqa: N812 - its documentation imports it so

    same_each_time()
    truth = Truth()

    class Data(L.LightningDataModule):
        def train_dataloader(self):
            return DataLoader(Images(640), batch_size=16, shuffle=True)

        def val_dataloader(self):
            return [DataLoader(Images(80), batch_size=size) for size in (40, 16)]

    limits = {"max_epochs": 4, "limit_train_batches": 25, "limit_val_batches": 2}
    L.Trainer(reload_dataloaders_every_n_epochs=1, **limits, **_QUIET).fit(_gan(L, truth), Data())
    truth.tell()


def _of_fabric(fabric):
    same_each_time()
    net, truth = model(), Truth()
    net, optimizer = fabric.setup(net, torch.optim.Adam(net.parameters(), 1e-3))
    loader = fabric.setup_dataloaders(DataLoader(Images(800), batch_size=16, shuffle=True))
    for _ in range(3):
        truth.begin()
        for number, (x, y) in enumerate(loader, 1):
            last = number % 4 == 0 or number == len(loader)
            with fabric.no_backward_sync(net, enabled=not last):
                loss = F.cross_entropy(net(x), y)
                fabric.backward(loss / 4)
            if last:
                fabric.clip_gradients(net, optimizer, max_norm=1.0)
                optimizer.step()
                optimizer.zero_grad()
            truth.trained(len(x), loss.item())
            time.sleep(STEP_S)
        truth.end()
    truth.tell()


def fabric_spawned():
    """Fabric starts two processes by spawn; gradients of four batches for each exchange."""
    from lightning import Fabric

    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp_spawn")
    fabric.launch(_of_fabric)


def temporal_fusion():
    """pytorch-forecasting: a TimeSeriesDataSet, its loaders, its TemporalFusionTransformer."""
    import lightning as L  # noqa: N812 - its documentation imports it so
    import numpy as np
    import pandas as pd
    from pytorch_forecasting import TemporalFusionTransformer, TimeSeriesDataSet
    from pytorch_forecasting.metrics import QuantileLoss

    same_each_time()
    truth = Truth()
    table = pd.DataFrame(
        {
            "time": np.tile(np.arange(60), 6),
            "series": np.repeat([f"s{number}" for number in range(6)], 60),
            "value": np.sin(np.arange(360) / 5.0),
        }
    )
    rows = TimeSeriesDataSet(
        table,
        time_idx="time",
        target="value",
        group_ids=["series"],
        max_encoder_length=16,
        max_prediction_length=4,
        time_varying_unknown_reals=["value"],
        time_varying_known_reals=["time"],
    )
    small = {"hidden_size": 4, "hidden_continuous_size": 4, "attention_head_size": 1}
    net = TemporalFusionTransformer.from_dataset(
        rows, learning_rate=0.01, loss=QuantileLoss(), log_interval=0, **small
    )

    class Clock(L.Callback):
        def on_train_epoch_start(self, *_):
            truth.begin()

        def on_train_batch_end(self, _trainer, _net, outputs, batch, _number):
            truth.trained(len(batch[1][0]), outputs["loss"])

        def on_train_epoch_end(self, *_):
            truth.end()

    trainer = L.Trainer(max_epochs=12, gradient_clip_val=0.1, callbacks=[Clock()], **_QUIET)
    trainer.fit(net, rows.to_dataloader(train=True, batch_size=16, num_workers=0))
    truth.tell()


def gluonts():
    """GluonTS's DeepAR: batches of its own stream of windows, a Trainer inside."""
    import lightning as L  # noqa: N812 - its documentation imports it so
    import numpy as np
    import pandas as pd
    from gluonts.dataset.pandas import PandasDataset
    from gluonts.torch import DeepAREstimator

    same_each_time()
    truth = Truth()
    index = pd.period_range("2020-01-01", periods=200, freq="D")
    series = {
        f"s{number}": pd.Series(np.sin(np.arange(200) / (number + 3)), index=index)
        for number in range(5)
    }

    class Clock(L.Callback):
        def on_train_epoch_start(self, *_):
            truth.begin()

        def on_train_batch_end(self, _trainer, _net, outputs, batch, _number):
            truth.trained(len(batch["past_target"]), outputs["loss"])
            time.sleep(STEP_S)

        def on_train_epoch_end(self, *_):
            truth.end()

    folder = tempfile.mkdtemp()
    estimator = DeepAREstimator(
        freq="D",
        prediction_length=6,
        hidden_size=8,
        num_layers=1,
        batch_size=16,
        num_batches_per_epoch=30,
        trainer_kwargs={
            **_QUIET,
            "max_epochs": 9,
            "callbacks": [Clock()],
            "enable_checkpointing": True,
            "default_root_dir": folder,
        },
    )
    estimator.train(PandasDataset(series))
    shutil.rmtree(folder)
    truth.tell()


if __name__ == "__main__":
    start(globals())
