"""transformers' Trainer: `python -m ...kits.huggingface NAME`."""

import contextlib
import tempfile
import time

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.utils.data import Dataset

from contrib.bench.foreign.programs.data import Images, model
from contrib.bench.foreign.programs.kits import STEP_S, start
from contrib.bench.foreign.programs.truth import Truth


class _Labelled(Dataset):
    """Dictionaries, as transformers expects them."""

    def __init__(self, length=400):
        self.images = Images(length)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image, label = self.images[index]
        return {"x": image, "labels": label}


class _Net(torch.nn.Module):
    """A model that makes its own loss."""

    def __init__(self, truth):
        super().__init__()
        self.net, self.truth = model(), truth

    def forward(self, x, labels):
        loss = F.cross_entropy(self.net(x), labels)
        if self.training:
            self.truth.trained(len(x), loss.item())
        return {"loss": loss}


def clock(truth, span="epoch"):
    """A callback that runs the clock during each `span`: epoch, or train."""
    from transformers import TrainerCallback

    def begin(*_args, **_named):
        truth.begin()

    def end(*_args, **_named):
        truth.end()

    return type("Clock", (TrainerCallback,), {f"on_{span}_begin": begin, f"on_{span}_end": end})()


@contextlib.contextmanager
def quiet_arguments(kind, **more):
    """A Trainer's arguments of this kind: on the CPU, nothing printed, its folder gone after."""
    usual = {
        "num_train_epochs": 9,
        "per_device_train_batch_size": 16,
        "use_cpu": True,
        "report_to": [],
        "save_strategy": "no",
        "logging_strategy": "no",
        "disable_tqdm": True,
    }
    with tempfile.TemporaryDirectory() as folder:
        yield kind(output_dir=folder, **(usual | more))


def _fit(kind, net_of, rows, span="epoch", **more):
    """Train `net_of(truth)` on these rows by a Trainer of this kind."""
    from transformers import TrainingArguments

    truth = Truth()
    with quiet_arguments(TrainingArguments, **more) as arguments:
        torch.manual_seed(42)
        net, callbacks = net_of(truth), [clock(truth, span)]
        kind(net, arguments, train_dataset=rows, callbacks=callbacks).train()
    truth.tell()


def plain():
    from transformers import Trainer

    _fit(Trainer, _Net, _Labelled())


def with_its_own_loss():
    """A subclass of transformers' Trainer: `compute_loss`, accumulation, a collator."""
    from transformers import Trainer

    class Weighted(Trainer):
        def compute_loss(self, net, inputs, return_outputs=False, **_):
            logits = net.net(inputs["x"])
            loss = F.cross_entropy(logits, inputs["labels"], label_smoothing=0.1)
            net.truth.trained(len(logits), loss.item())
            time.sleep(STEP_S)
            return (loss, {"logits": logits}) if return_outputs else loss

    more = {"num_train_epochs": 2, "gradient_accumulation_steps": 2}
    _fit(Weighted, _Net, _Labelled(640), remove_unused_columns=False, **more)


def on_a_stream():
    """transformers' Trainer on a stream: steps at most, no epochs."""
    from datasets import Dataset as Table
    from transformers import Trainer

    images = Images()
    rows = Table.from_dict({"number": list(range(400))}).to_iterable_dataset(num_shards=2)
    rows = rows.map(
        lambda row: dict(zip(("x", "labels"), images[row["number"]], strict=True)),
        remove_columns=["number"],
    )
    _fit(Trainer, _Net, rows.with_format("torch"), "train", max_steps=90)


if __name__ == "__main__":
    start(globals())
