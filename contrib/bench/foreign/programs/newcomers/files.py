"""Readers of files, as their libraries' pages use them: `python -m ...newcomers.files NAME`."""

import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from contrib.bench.foreign.programs import declare
from contrib.bench.foreign.programs.data import COST_S
from contrib.bench.foreign.programs.feeding import Trainer

STEP_S = 0.005


def _fit(trainer, loader, epochs=3):
    for _ in range(epochs):
        with trainer.truth.training():
            for batch in loader:
                x, y = batch if isinstance(batch, (list, tuple)) else (batch["x"], batch["y"])
                trainer.step(x.float().reshape(-1, 3, 16, 16), torch.as_tensor(y).long())
                time.sleep(STEP_S)
    trainer.truth.tell()


def _pictures(count=400):
    return np.sin(np.arange(768)[None] * (1 + np.arange(count)[:, None] % 17)).astype("float32")


class _Opened(Dataset):
    """Opens its file at the first item, in whichever process asks."""

    def __init__(self, opener, count=400):
        self.opener, self.count, self.file = opener, count, None

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if self.file is None:
            self.file = self.opener()
        time.sleep(COST_S)
        return torch.tensor(self.file(index)), index % 10


class _FromH5:
    def __init__(self, path):
        self.path = path

    def __call__(self):
        import h5py

        rows = h5py.File(self.path, "r")["x"]
        return lambda index: rows[index]


class _FromLmdb:
    def __init__(self, path):
        self.path = path

    def __call__(self):
        import lmdb

        base = lmdb.open(self.path, readonly=True, lock=False, readahead=False, meminit=False)

        def read(index):
            with base.begin(write=False) as got:
                return np.frombuffer(got.get(str(index).encode()), "float32").copy()

        return read


class _FromZarr:
    def __init__(self, path):
        self.path = path

    def __call__(self):
        import zarr

        rows = zarr.open(self.path, mode="r")
        return lambda index: np.asarray(rows[index])


class _FromMemmap:
    def __init__(self, path):
        self.path = path

    def __call__(self):
        rows = np.load(self.path, mmap_mode="r")
        return lambda index: np.array(rows[index])


def h5py_rows():
    """One file, opened by each worker."""
    import h5py

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.h5")
        with h5py.File(path, "w") as file:
            file["x"] = _pictures()
        loader = DataLoader(_Opened(_FromH5(path)), batch_size=16, shuffle=True, num_workers=1)
        _fit(Trainer(), loader)


def lmdb_rows():
    """An environment that is opened lazily, in the training process."""
    import lmdb

    with tempfile.TemporaryDirectory() as folder:
        with lmdb.open(folder, map_size=1 << 24) as base, base.begin(write=True) as put:
            for index, row in enumerate(_pictures()):
                put.put(str(index).encode(), row.tobytes())
        _fit(Trainer(), DataLoader(_Opened(_FromLmdb(folder)), batch_size=16, shuffle=True))


def zarr_rows():
    """Chunks of an array, read by a worker that lasts."""
    import zarr

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.zarr")
        zarr.save(path, _pictures())
        loader = DataLoader(
            _Opened(_FromZarr(path)),
            batch_size=16,
            shuffle=True,
            num_workers=1,
            persistent_workers=True,
            multiprocessing_context="forkserver",
        )
        _fit(Trainer(), loader)


def memmap_rows():
    """numpy's memmap, opened at the first item."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.npy")
        np.save(path, _pictures())
        _fit(Trainer(), DataLoader(_Opened(_FromMemmap(path)), batch_size=16, shuffle=True))


def formatted_datasets():
    """Hugging Face's tables with `set_format`, batches by `__getitems__`."""
    from datasets import Dataset as Table

    rows = Table.from_dict({"x": _pictures(1600).tolist(), "y": [i % 10 for i in range(1600)]})
    rows.set_format("torch")
    _fit(Trainer(), DataLoader(rows, batch_size=32, shuffle=True, num_workers=1), 5)


def mosaic_streaming():
    """Shards written and read here, by the library's own loader, resumable."""
    from streaming import MDSWriter, StreamingDataLoader, StreamingDataset

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mds")
        columns = {"x": "ndarray:float32:768", "y": "int"}
        with MDSWriter(out=path, columns=columns, size_limit=1 << 18) as out:
            for index, row in enumerate(_pictures(640)):
                out.write({"x": row, "y": index % 10})
        data = StreamingDataset(local=path, shuffle=True, shuffle_seed=4, batch_size=16)
        _fit(Trainer(), StreamingDataLoader(data, batch_size=16, num_workers=0))


def lightning_data():
    """litdata: optimised chunks, its StreamingDataset and StreamingDataLoader."""
    from litdata import StreamingDataLoader, StreamingDataset
    from litdata.streaming.writer import BinaryWriter

    with tempfile.TemporaryDirectory() as folder:
        writer = BinaryWriter(folder, chunk_bytes="256KB")
        for index, row in enumerate(_pictures()):
            writer[index] = {"x": torch.from_numpy(row), "y": index % 10}
        writer.done()
        writer.merge()
        data = StreamingDataset(folder, shuffle=True, seed=4)
        _fit(Trainer(), StreamingDataLoader(data, batch_size=16, num_workers=1), 9)


def tar_of_files():
    """A folder of arrays, a file each; a training and a validation each epoch list it."""

    class Folder(Dataset):
        def __init__(self, root, last):
            self.names = sorted(Path(root).glob("*.npy"))[:last]

        def __len__(self):
            return len(self.names)

        def __getitem__(self, index):
            time.sleep(COST_S)
            return torch.from_numpy(np.load(self.names[index])), index % 10

    with tempfile.TemporaryDirectory() as folder:
        for index, row in enumerate(_pictures(320)):
            np.save(os.path.join(folder, f"{index:04d}.npy"), row)
        trainer = Trainer()
        for _ in range(3):
            loader = DataLoader(Folder(folder, 320), batch_size=16, shuffle=True)
            with trainer.truth.training():
                for x, y in loader:
                    trainer.step(x.reshape(-1, 3, 16, 16), y)
                    time.sleep(STEP_S)
            with torch.no_grad():
                for x, _ in DataLoader(Folder(folder, 96), batch_size=16):
                    trainer.net(x.reshape(-1, 3, 16, 16))
        trainer.truth.tell()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    declare()
    globals()[sys.argv[1]]()
