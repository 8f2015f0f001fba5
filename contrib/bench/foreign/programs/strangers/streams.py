"""Data that is streamed from files: `python -m ...strangers.streams NAME`."""

import io
import sys
import tarfile
import tempfile
import time
import warnings
from pathlib import Path

import torch
from torch.utils.data import DataLoader

from contrib.bench.foreign.programs import declare
from contrib.bench.foreign.programs.data import COST_S, Images
from contrib.bench.foreign.programs.feeding import Trainer

_EPOCHS = 3


def _fit(loader, epochs=_EPOCHS, trainer=None):
    trainer = trainer or Trainer()
    for _ in range(epochs):
        with trainer.truth.training():
            for batch in loader:
                x, y = batch if isinstance(batch, (list, tuple)) else (batch["x"], batch["y"])
                trainer.step(x.float(), torch.as_tensor(y))
    return trainer


def _decoded(number):
    time.sleep(COST_S)
    return torch.full((3, 16, 16), number % 10 / 10), number % 10


def webdataset_resampled():
    """Shards drawn again and again, a shuffle buffer, epochs of a number of batches."""
    import webdataset as wds

    trainer = Trainer()
    with tempfile.TemporaryDirectory() as folder:
        for shard in range(4):
            with tarfile.open(Path(folder, f"train-{shard}.tar"), "w") as tar:
                for i in range(100):
                    body = str(i % 10).encode()
                    info = tarfile.TarInfo(f"{shard}{i:04d}.cls")
                    info.size = len(body)
                    tar.addfile(info, io.BytesIO(body))
        urls = [str(Path(folder, f"train-{shard}.tar")) for shard in range(4)]
        data = (
            wds.WebDataset(urls, resampled=True, seed=3)
            .shuffle(50, seed=3)
            .map(lambda sample: _decoded(int(sample["cls"])))
            .batched(16)
        )
        loader = wds.WebLoader(data, batch_size=None, num_workers=1).with_epoch(25)
        _fit(loader, trainer=trainer).truth.tell()


def webdataset_rebatched():
    """The guide's way: partial batches by the workers, put together again after the loader."""
    import webdataset as wds

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.tar")
        with tarfile.open(path, "w") as tar:
            for i in range(400):
                body = str(i % 10).encode()
                info = tarfile.TarInfo(f"{i:05d}.cls")
                info.size = len(body)
                tar.addfile(info, io.BytesIO(body))
        data = wds.WebDataset(str(path), shardshuffle=False)
        data = data.map(lambda sample: _decoded(int(sample["cls"]))).batched(8)
        loader = wds.WebLoader(data, batch_size=None, num_workers=1).unbatched().batched(16)
        _fit(loader).truth.tell()


def datasets_from_files():
    """Hugging Face's streaming of JSON files, shards shuffled, by workers."""
    import json

    from datasets import load_dataset

    trainer = Trainer()
    with tempfile.TemporaryDirectory() as folder:
        for shard in range(4):
            lines = [json.dumps({"number": shard * 100 + i}) for i in range(100)]
            Path(folder, f"{shard}.jsonl").write_text("\n".join(lines))
        names = sorted(map(str, Path(folder).glob("*.jsonl")))
        rows = load_dataset("json", data_files=names, split="train", streaming=True)
        rows = rows.shuffle(seed=5, buffer_size=64)
        rows = rows.map(lambda row: dict(zip(("x", "y"), _decoded(row["number"]), strict=True)))
        rows = rows.remove_columns("number").with_format("torch")
        for epoch in range(_EPOCHS):
            rows.set_epoch(epoch)
            _fit(DataLoader(rows, batch_size=16, num_workers=1), 1, trainer)
    trainer.truth.tell()


def dali_like():
    """A pipeline object of one's own: `run` gives a batch, an epoch ends by StopIteration."""
    trainer, data = Trainer(), Images()

    class Pipeline:
        def __init__(self):
            self.place = 0

        def __iter__(self):
            return self

        def __next__(self):
            if self.place >= len(data):
                self.place = 0
                raise StopIteration
            made = [data[i] for i in range(self.place, self.place + 16)]
            self.place += 16
            return [{"data": torch.stack([x for x, _ in made]), "label": [y for _, y in made]}]

    pipeline = Pipeline()
    for _ in range(4):
        with trainer.truth.training():
            for batch in pipeline:
                trainer.step(batch[0]["data"], torch.tensor(batch[0]["label"]))
        trainer.net.eval()
        with torch.no_grad():
            for batch in pipeline:
                trainer.net(batch[0]["data"])
        trainer.net.train()
    trainer.truth.tell()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    declare()
    globals()[sys.argv[1]]()
