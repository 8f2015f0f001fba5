"""Training kits and their hooks: `python -m ...newcomers.kits NAME`."""

import logging
import sys
import tempfile
import time
import warnings

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.utils.data import DataLoader, TensorDataset

from contrib.bench.foreign.programs import declare
from contrib.bench.foreign.programs.data import Images, Stream, model
from contrib.bench.foreign.programs.truth import Truth, same_each_time

STEP_S = 0.01


def fabric():
    """Lightning's Fabric: a loop of one's own, `setup`, `backward`; validations in mid-epoch."""
    import lightning as L  # noqa: N812 - its documentation imports it so

    L.seed_everything(42)
    fabric, truth = L.Fabric(accelerator="cpu", devices=1), Truth()
    fabric.launch()
    net = model()
    net, optimizer = fabric.setup(net, torch.optim.Adam(net.parameters(), 1e-3))
    train, check = fabric.setup_dataloaders(
        DataLoader(Images(320), batch_size=16, shuffle=True), DataLoader(Images(80), batch_size=40)
    )
    for _ in range(3):
        net.train()
        truth.begin()
        for number, (x, y) in enumerate(train):
            loss = F.cross_entropy(net(x), y)
            fabric.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            truth.trained(len(x), loss.item())
            time.sleep(STEP_S)
            if number == 9:
                truth.end()
                net.eval()
                with torch.no_grad():
                    for held, _ in check:
                        net(held)
                net.train()
                truth.begin()
        truth.end()
    truth.tell()


def _huggingface(kind, truth, rows, **more):
    """A Trainer of this kind on these rows; its clock runs from epoch to epoch."""
    from transformers import TrainerCallback

    from contrib.bench.foreign.programs.trainers import quiet_arguments

    class Clock(TrainerCallback):
        def on_epoch_begin(self, *_args, **_named):
            truth.begin()

        def on_epoch_end(self, *_args, **_named):
            truth.end()

    with tempfile.TemporaryDirectory() as folder:
        args = quiet_arguments(folder, **more)
        torch.manual_seed(42)
        kind(model(), args, train_dataset=rows, callbacks=[Clock()]).train()
    truth.tell()


def trainer_with_its_own_loss():
    """A subclass of transformers' Trainer: `compute_loss`, accumulation, a collator."""
    from transformers import Trainer as HuggingFace

    from contrib.bench.foreign.programs.trainers import Labelled

    truth = Truth()

    class Weighted(HuggingFace):
        def compute_loss(self, net, inputs, return_outputs=False, **_):
            found = net(inputs["x"])
            loss = F.cross_entropy(found, inputs["labels"], label_smoothing=0.1)
            truth.trained(len(found), loss.item())
            time.sleep(STEP_S)
            return (loss, {"logits": found}) if return_outputs else loss

    more = {"num_train_epochs": 2, "gradient_accumulation_steps": 2}
    _huggingface(Weighted, truth, Labelled(640), remove_unused_columns=False, **more)


def accelerate_dispatched():
    """A stream whose batches the main process hands out; gradients clipped, steps at most."""
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration

    same_each_time()
    accelerator = Accelerator(
        cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=True)
    )
    net, truth = model(), Truth()
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
    net, optimizer, loader = accelerator.prepare(
        net, optimizer, DataLoader(Stream(480), batch_size=16)
    )
    for _ in range(3):
        with truth.training():
            for x, y in loader:
                loss = F.cross_entropy(net(x), y)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(net.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                truth.trained(len(x), loss.item())
                time.sleep(STEP_S)
    truth.tell()


def ignite_events():
    """A process function of one's own; evaluations on the training data, too, by iterations."""
    from ignite.engine import Engine, Events, create_supervised_evaluator
    from ignite.metrics import Accuracy

    same_each_time()
    net, truth = model(), Truth()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    train = DataLoader(Images(320), batch_size=16, shuffle=True)
    check = DataLoader(Images(96), batch_size=48)

    def step(_, batch):
        net.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(net(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        truth.trained(len(batch[0]), loss.item())
        time.sleep(STEP_S)

    trainer = Engine(step)
    evaluator = create_supervised_evaluator(net, {"accuracy": Accuracy()})
    trainer.add_event_handler(Events.STARTED, truth.begin)

    @trainer.on(Events.ITERATION_COMPLETED(every=20))
    def evaluate():
        truth.end()
        evaluator.run(train)
        evaluator.run(check)
        truth.begin()

    trainer.add_event_handler(Events.COMPLETED, truth.end)
    trainer.run(train, max_epochs=4)
    truth.tell()


def fastai_callbacks():
    """Two rates by freezing, accumulation, a callback that ends early, one cycle."""
    import fastai.callback.progress  # noqa: F401 - it gives a Learner no_bar
    from fastai.basics import Callback, DataLoaders, Learner
    from fastai.callback.schedule import Learner as _  # noqa: F401 - it gives fit_one_cycle
    from fastai.callback.training import GradientAccumulation

    same_each_time()
    truth = Truth()

    class Clock(Callback):
        def before_train(self):
            truth.begin()

        def after_train(self):
            truth.end()

        def after_batch(self):
            if self.training:
                truth.trained(len(self.xb[0]), self.loss.item())
                time.sleep(STEP_S)

    dls = DataLoaders.from_dsets(Images(320), Images(160), bs=16, num_workers=0, device="cpu")
    learner = Learner(
        dls,
        model(),
        loss_func=torch.nn.CrossEntropyLoss(),
        cbs=[Clock(), GradientAccumulation(32)],
    )
    with learner.no_bar(), learner.no_logging():
        learner.fit_one_cycle(3, 1e-3)
    truth.tell()


def monai_supervised():
    """SupervisedTrainer with dictionaries, an evaluator as handler after each epoch."""
    from monai.data import DataLoader as Monai
    from monai.data import Dataset as Table
    from monai.engines import SupervisedEvaluator, SupervisedTrainer
    from monai.handlers import ValidationHandler

    same_each_time()
    net, truth, images = model(), Truth(), Images()

    def rows(count):
        def read(number):
            picture, label = images[number]
            return {"image": picture, "label": torch.tensor(label)}

        return Table(list(range(count)), transform=read)

    device = torch.device("cpu")
    evaluator = SupervisedEvaluator(device, Monai(rows(96), batch_size=48), net)

    def losses(found, target):
        loss = F.cross_entropy(found, target)
        truth.trained(len(found), loss.item())
        time.sleep(STEP_S)
        return loss

    trainer = SupervisedTrainer(
        device=device,
        max_epochs=3,
        train_data_loader=Monai(rows(320), batch_size=16, shuffle=True),
        network=net,
        optimizer=torch.optim.Adam(net.parameters(), 1e-3),
        loss_function=losses,
        train_handlers=[ValidationHandler(1, evaluator)],
    )
    from ignite.engine import Events

    trainer.add_event_handler(Events.EPOCH_STARTED, truth.begin)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, truth.end)
    order = trainer._event_handlers[Events.EPOCH_COMPLETED]
    order.insert(0, order.pop())  # the clock stops before the validation begins
    trainer.run()
    truth.tell()


def opacus_private():
    """Differential privacy: batches drawn item by item, so that each has another size."""
    from opacus import PrivacyEngine

    same_each_time()
    truth = Truth()
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(768, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    loader = DataLoader(Images(480), batch_size=16)
    net, optimizer, loader = PrivacyEngine().make_private(
        module=net, optimizer=optimizer, data_loader=loader, noise_multiplier=1.1, max_grad_norm=1.0
    )
    for _ in range(3):
        with truth.training():
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(net(x), y)
                loss.backward()
                optimizer.step()
                truth.trained(len(x), loss.item())
                time.sleep(STEP_S)
    truth.tell()


def poutyne_fit():
    """Keras's way for torch: `fit` with a validation loader and callbacks."""
    from poutyne import Callback, Model

    same_each_time()
    truth = Truth()

    class Clock(Callback):
        def on_epoch_begin(self, *_):
            truth.begin()

        def on_train_batch_end(self, _, logs):
            truth.trained(16, logs["loss"])
            time.sleep(STEP_S)
            if truth.steps % 20 == 0:
                truth.end()

    net = model()
    kit = Model(net, torch.optim.SGD(net.parameters(), 1e-3), "cross_entropy")
    kit.fit_generator(
        DataLoader(Images(320), batch_size=16, shuffle=True),
        DataLoader(Images(160), batch_size=16),
        epochs=3,
        callbacks=[Clock()],
        verbose=False,
    )
    truth.tell()


def mmengine_runner():
    """OpenMMLab's Runner: loaders from dictionaries, a validation after each epoch, hooks."""
    from mmengine.evaluator import BaseMetric, Evaluator
    from mmengine.hooks import Hook
    from mmengine.model import BaseModel
    from mmengine.runner import Runner

    truth = Truth()

    class Net(BaseModel):
        def __init__(self):
            super().__init__()
            self.net = model()

        def forward(self, x, y, mode):
            if mode != "loss":
                return self.net(x), y
            loss = F.cross_entropy(self.net(x), y)
            truth.trained(len(x), loss.item())
            time.sleep(STEP_S)
            return {"loss": loss}

    class Right(BaseMetric):
        def process(self, _, found):
            self.results.append(int((found[0].argmax(1) == found[1]).sum()))

        def compute_metrics(self, results):
            return {"right": sum(results)}

    class Clock(Hook):
        priority = "HIGHEST"

        def before_train_epoch(self, _):
            truth.begin()

        def after_train_epoch(self, _):
            truth.end()

    def loader(count, size, shuffle):
        sampler = {"type": "DefaultSampler", "shuffle": shuffle}
        collate = {"type": "default_collate"}
        return {
            "dataset": Images(count),
            "batch_size": size,
            "sampler": sampler,
            "num_workers": 0,
            "collate_fn": collate,
        }

    with tempfile.TemporaryDirectory() as folder:
        Runner(
            Net(),
            folder,
            train_dataloader=loader(320, 16, True),
            train_cfg={"by_epoch": True, "max_epochs": 3, "val_interval": 1},
            optim_wrapper={"optimizer": {"type": "SGD", "lr": 1e-3}},
            val_dataloader=loader(96, 48, False),
            val_cfg={},
            val_evaluator=Evaluator(Right()),
            custom_hooks=[Clock()],
            default_hooks={"checkpoint": None, "logger": None},
            randomness={"seed": 5},
            log_level="ERROR",
        ).train()
    truth.tell()


def tabnet():
    """A table in memory, `fit` with an evaluation set and patience."""
    import numpy as np
    from pytorch_tabnet.callbacks import Callback
    from pytorch_tabnet.tab_model import TabNetClassifier

    truth = Truth()

    class Clock(Callback):
        def on_epoch_begin(self, *_args, **_named):
            truth.begin()

        def on_batch_end(self, _, logs=None):
            truth.trained(64, logs["loss"])
            if truth.steps % 15 == 0:
                truth.end()

    x = np.sin(np.arange(960 * 12).reshape(960, 12)).astype("float32")
    y = (x.sum(1) > 0).astype(int)
    TabNetClassifier(verbose=0, seed=3, n_d=4, n_a=4).fit(
        x,
        y,
        eval_set=[(x[:200], y[:200])],
        max_epochs=5,
        patience=9,
        batch_size=64,
        virtual_batch_size=32,
        drop_last=False,
        callbacks=[Clock()],
    )
    truth.tell()


def forecasting():
    """pytorch-forecasting in small: Lightning, a loader that a data set of series makes."""
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
    L.Trainer(
        max_epochs=10,
        limit_train_batches=20,
        gradient_clip_val=0.1,
        accumulate_grad_batches=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    ).fit(Net(), loader)
    truth.tell()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    declare()
    globals()[sys.argv[1]]()
