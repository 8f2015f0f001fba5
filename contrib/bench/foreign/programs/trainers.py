"""Libraries that own the training loop: `python -m ...trainers NAME`."""

import logging
import sys
import tempfile
import warnings

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.utils.data import DataLoader, Dataset

from . import declare
from .data import Images, model
from .truth import Truth, same_each_time


def _lightning():
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
    trainer = L.Trainer(
        max_epochs=3,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(
        module,
        DataLoader(Images(), batch_size=16, shuffle=True),
        DataLoader(Images(100), batch_size=50),
    )
    module.truth.tell()


def lightning():
    same_each_time()
    _lightning()


def lightning_seeded():
    import lightning as L  # noqa: N812 - its documentation imports it so

    L.seed_everything(42, workers=True)
    _lightning()


class Labelled(Dataset):
    """Dictionaries, as transformers expects them."""

    def __init__(self, length=400):
        self.images = Images(length)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image, label = self.images[index]
        return {"x": image, "labels": label}


def quiet_arguments(folder, **more):
    """Of transformers' Trainer: on the CPU, with nothing written."""
    from transformers import TrainingArguments

    return TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=16,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        logging_strategy="no",
        **more,
    )


def transformers_trainer():
    from transformers import Trainer, TrainerCallback

    truth = Truth()

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = model()

        def forward(self, x, labels):
            loss = F.cross_entropy(self.net(x), labels)
            if self.training:
                truth.trained(len(x), loss.item())
            return {"loss": loss}

    class Clock(TrainerCallback):
        def on_epoch_begin(self, *_args, **_named):
            truth.begin()

        def on_epoch_end(self, *_args, **_named):
            truth.end()

    with tempfile.TemporaryDirectory() as folder:
        args = quiet_arguments(folder, num_train_epochs=3)
        torch.manual_seed(42)
        Trainer(Net(), args, train_dataset=Labelled(), callbacks=[Clock()]).train()
    truth.tell()


def accelerate():
    """Its nlp_example: set_seed(42), prepare, backward."""
    from accelerate import Accelerator
    from accelerate.utils import set_seed

    set_seed(42)
    accelerator, net, truth = Accelerator(cpu=True), model(), Truth()
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
    loader = DataLoader(Images(), batch_size=16, shuffle=True)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for _ in range(3):
        with truth.training():
            for x, y in loader:
                loss = F.cross_entropy(net(x), y)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
                truth.trained(len(x), loss.item())
    truth.tell()


def fastai():
    import fastai.callback.progress  # noqa: F401 - it gives a Learner no_bar
    from fastai.basics import Callback, DataLoaders, Learner

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

    dls = DataLoaders.from_dsets(Images(), Images(100), bs=16, num_workers=0, device="cpu")
    learner = Learner(dls, model(), loss_func=torch.nn.CrossEntropyLoss(), cbs=[Clock()])
    with learner.no_bar(), learner.no_logging():
        learner.fit(3, 1e-3)
    truth.tell()


def ignite():
    from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer

    same_each_time()
    net, truth = model(), Truth()
    trainer = create_supervised_trainer(
        net,
        torch.optim.SGD(net.parameters(), lr=1e-3),
        F.cross_entropy,
        output_transform=lambda x, _y, _p, loss: truth.trained(len(x), loss.item()),
    )
    evaluator = create_supervised_evaluator(net)
    held_out = DataLoader(Images(100), batch_size=50)
    trainer.add_event_handler(Events.EPOCH_STARTED, truth.begin)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, truth.end)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda: evaluator.run(held_out))
    trainer.run(DataLoader(Images(), batch_size=16, shuffle=True), max_epochs=3)
    truth.tell()


def skorch():
    from skorch import NeuralNetClassifier
    from skorch.callbacks import Callback

    same_each_time()
    truth = Truth()

    class Clock(Callback):
        def on_epoch_begin(self, *_args, **_named):
            truth.begin()

        def on_epoch_end(self, *_args, **_named):
            truth.end()

        def on_batch_end(self, _net, batch, training, loss, **_named):
            if training:
                truth.trained(len(batch[0]), loss.item())

    net = NeuralNetClassifier(
        model,
        criterion=torch.nn.CrossEntropyLoss,
        max_epochs=3,
        batch_size=16,
        iterator_train__shuffle=True,
        train_split=None,
        callbacks=[("clock", Clock())],
        callbacks__print_log=None,
        callbacks__train_loss=None,
    )
    net.fit(Images(), y=None)
    truth.tell()


def ultralytics():
    """YOLO from its own description of the network, on pictures made here."""
    from pathlib import Path

    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for part, count in (("train", 96), ("val", 8)):
            (root / "images" / part).mkdir(parents=True)
            (root / "labels" / part).mkdir(parents=True)
            for i in range(count):
                Image.new("RGB", (64, 64), (i, 2 * i % 255, 9)).save(
                    root / f"images/{part}/{i}.png"
                )
                (root / f"labels/{part}/{i}.txt").write_text("0 0.5 0.5 0.4 0.4\n")
        (root / "data.yaml").write_text(
            f"path: {root}\ntrain: images/train\nval: images/val\nnames: [thing]\n"
        )
        from ultralytics import YOLO

        truth, yolo = Truth(), YOLO("yolov8n.yaml")
        yolo.add_callback("on_train_epoch_start", lambda _: truth.begin())
        yolo.add_callback("on_train_epoch_end", lambda _: truth.end())
        yolo.add_callback(
            "on_train_batch_end",
            lambda t: truth.trained(16, (t.loss if t.loss.ndim == 0 else t.loss.sum()).item()),
        )
        yolo.train(
            data=str(root / "data.yaml"),
            epochs=2,
            batch=16,
            imgsz=64,
            workers=0,
            device="cpu",
            amp=False,
            plots=False,
            save=False,
            val=False,
            verbose=False,
            project=folder,
        )
    truth.tell()


if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    declare()
    globals()[sys.argv[1]]()
