"""Libraries that bring loaders of their own: `python -m ...loaders NAME`."""

import io
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.utils.data import RandomSampler

from . import declare
from .data import COST_S, Images
from .feeding import EPOCHS, Trainer


def stateful():
    """torchdata's StatefulDataLoader."""
    from torchdata.stateful_dataloader import StatefulDataLoader

    Trainer().fit(StatefulDataLoader(Images(), batch_size=16, shuffle=True)).truth.tell()


def nodes():
    """torchdata.nodes, its migration guide's map-style loader."""
    from torch.utils.data import default_collate
    from torchdata.nodes import Batcher, Loader, Mapper, ParallelMapper, SamplerWrapper

    data = Images()
    node = SamplerWrapper(RandomSampler(data))
    node = ParallelMapper(node, map_fn=data.__getitem__, num_workers=1, method="thread")
    node = Mapper(Batcher(node, batch_size=16, drop_last=False), map_fn=default_collate)
    Trainer().fit(Loader(node)).truth.tell()


def webdataset():
    """A tar file of samples, batched by the pipeline."""
    import webdataset as wds

    def decoded(sample):
        time.sleep(COST_S)
        number = int(sample["cls"])
        return torch.full((3, 16, 16), number / 10), number

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.tar")
        with tarfile.open(path, "w") as tar:
            for i in range(400):
                info = tarfile.TarInfo(f"{i:06d}.cls")
                body = str(i % 10).encode()
                info.size = len(body)
                tar.addfile(info, io.BytesIO(body))
        data = wds.WebDataset(str(path), shardshuffle=False).map(decoded).batched(16)
        loader = wds.WebLoader(data, batch_size=None, num_workers=1)
        trainer = Trainer()
        for _ in range(EPOCHS):
            with trainer.truth.training():
                for x, y in loader:
                    trainer.step(x, torch.as_tensor(y))
        trainer.truth.tell()


def geometric():
    """torch_geometric's graph classification."""
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader
    from torch_geometric.nn import GCNConv, global_mean_pool

    def graph(i):
        edges = torch.stack([torch.arange(9), torch.arange(1, 10)])
        x = torch.sin(torch.arange(40.0).reshape(10, 4) * (i % 13 + 1))
        return Data(x=x, edge_index=edges, y=torch.tensor([i % 2]))

    trainer = Trainer()
    conv, head = GCNConv(4, 16), torch.nn.Linear(16, 2)
    optimizer = torch.optim.Adam([*conv.parameters(), *head.parameters()])
    loader = DataLoader([graph(i) for i in range(1600)], batch_size=16, shuffle=True)
    for _ in range(5):
        with trainer.truth.training():
            for batch in loader:
                optimizer.zero_grad()
                hidden = conv(batch.x, batch.edge_index).relu()
                loss = F.cross_entropy(head(global_mean_pool(hidden, batch.batch)), batch.y)
                loss.backward()
                optimizer.step()
                trainer.truth.trained(batch.num_graphs, loss.item())
    trainer.truth.tell()


def monai_threads():
    """MONAI's ThreadDataLoader, for transforms on a GPU."""
    from monai.data import Dataset, ThreadDataLoader

    data = Dataset(list(range(400)), transform=Images().__getitem__)
    Trainer().fit(ThreadDataLoader(data, batch_size=16, shuffle=True, num_workers=0)).truth.tell()


def monai_cache():
    """MONAI's CacheDataset and DataLoader: half of the items are in memory."""
    from monai.data import CacheDataset, DataLoader

    trainer = Trainer()
    data = CacheDataset(
        list(range(600)), transform=Images().__getitem__, cache_rate=0.5, progress=False
    )
    trainer.fit(DataLoader(data, batch_size=16, shuffle=True, num_workers=0)).truth.tell()


def timm():
    """timm's loader of several epochs; its seed 42, as its train.py sets it."""
    from timm.data.loader import MultiEpochsDataLoader
    from timm.utils import random_seed

    trainer = Trainer()
    random_seed(42, 0)
    loader = MultiEpochsDataLoader(Images(), batch_size=16, shuffle=True, num_workers=1)
    held_out = MultiEpochsDataLoader(Images(100), batch_size=50, num_workers=1)
    for _ in range(EPOCHS):
        trainer.fit(loader, 1)
        with torch.no_grad():
            for x, _ in held_out:
                trainer.net(x)
    trainer.truth.tell()


if __name__ == "__main__":
    declare()
    globals()[sys.argv[1]]()
