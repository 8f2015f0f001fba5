"""Loops of `frameworks` by Lightning, the Hugging Face Trainer, Accelerate and timm."""

import tempfile
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from contrib.bench.gpu.programs.work import EPOCHS, Work, epochs, stepper


def lightning(work: Work) -> None:
    """Its Trainer on the device, with a validation after each epoch."""
    import lightning as kit

    class Module(kit.LightningModule):  # type: ignore[misc]  # it has no types
        def __init__(self) -> None:
            super().__init__()
            self.net = work.net

        def training_step(self, batch: Any, _: int) -> Any:
            loss = cross_entropy(self.net(batch[0]), batch[1])
            work.count(len(batch[0]), loss)
            return loss

        def validation_step(self, batch: Any, _: int) -> None:
            self.log("check", cross_entropy(self.net(batch[0]), batch[1]))

        def on_train_epoch_start(self) -> None:
            work.truth.begin()

        def on_validation_epoch_start(self) -> None:
            if not self.trainer.sanity_checking:
                work.done()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 1e-3)

    silent = dict.fromkeys(
        ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
    )
    where = "gpu" if work.device.is_cuda else "cpu"
    trainer = kit.Trainer(accelerator=where, devices=1, max_epochs=EPOCHS, **silent)
    trainer.fit(Module(), work.train, work.check)


def trainer(work: Work) -> None:
    """The Hugging Face Trainer: samples as dictionaries, loaders of its own making."""
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = work.net

        def forward(self, images: Any, labels: Any) -> Any:
            loss = cross_entropy(self.net(images), labels)
            if self.training:
                work.count(len(images), loss)
            return {"loss": loss}

    class Clock(TrainerCallback):  # type: ignore[misc]  # it has no types
        def on_epoch_begin(self, *_: Any, **__: Any) -> None:
            work.truth.begin()

        def on_epoch_end(self, *_: Any, **__: Any) -> None:
            work.done()

    def collated(rows: Any) -> Any:
        return {
            "images": torch.stack([image for image, _ in rows]),
            "labels": torch.tensor([label for _, label in rows]),
        }

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            num_train_epochs=EPOCHS,
            per_device_train_batch_size=work.train.batch_size,
            dataloader_num_workers=work.train.num_workers,
            remove_unused_columns=False,
            use_cpu=not work.device.is_cuda,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        )
        words: dict[str, Any] = {"data_collator": collated, "callbacks": [Clock()]}
        Trainer(Net(), arguments, train_dataset=work.train.dataset, **words).train()


def accelerate(work: Work) -> None:
    """Its prepared loader moves batches itself; half precision where there is a GPU."""
    from accelerate import Accelerator

    cuda = work.device.is_cuda
    accelerator = Accelerator(cpu=not cuda, mixed_precision="bf16" if cuda else "no")
    optimizer: Any = torch.optim.AdamW(work.net.parameters(), 1e-3)
    net, optimizer, work.train = accelerator.prepare(work.net, optimizer, work.train)

    def step(images: Any, classes: Any) -> Any:
        with accelerator.accumulate(net):
            loss = cross_entropy(net(images), classes)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        return loss

    epochs(work, step, net)


def timm(work: Work) -> None:
    """Its create_loader, whose prefetcher uploads and scales on a stream, and its optimizer."""
    from timm.data import create_loader
    from timm.optim import create_optimizer_v2

    cuda, pictures = work.device.is_cuda, work.train.dataset
    pictures.transform = None
    net = work.on_device()
    optimizer = create_optimizer_v2(net, opt="sgd", lr=1e-3)
    side = pictures.bank.shape[-1]
    words: dict[str, Any] = {"device": torch.device(work.device.name), "num_workers": 2}
    work.train = create_loader(
        pictures, (3, side, side), pictures.batch, is_training=True, use_prefetcher=cuda, **words
    )
    if not cuda:
        raise ModuleNotFoundError("timm's prefetcher wants a GPU", name="a GPU for timm")

    epochs(work, stepper(net, optimizer), net)


BY_KITS = {"lightning": lightning, "trainer": trainer, "accelerate": accelerate, "timm": timm}
