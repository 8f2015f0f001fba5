"""Loops of pretraining and detection repositories: `python -m ...newcomers.pretraining NAME`."""

import itertools
import queue
import random
import sys
import threading
import time

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, Sampler

from contrib.bench.foreign.programs.data import COST_S, Images, model, tokens
from contrib.bench.foreign.programs.feeding import Trainer
from contrib.bench.foreign.programs.truth import Truth, same_each_time

STEP_S = 0.006


class _Pretokenised(IterableDataset):
    """llama2.c's PretokDataset: shards in a random order, for ever."""

    def __init__(self, seed):
        self.text, self.seed = tokens(), seed

    def __iter__(self):
        draws = random.Random(self.seed)
        while True:
            starts = list(range(0, len(self.text) - 65, 64))
            draws.shuffle(starts)
            for first in starts:
                time.sleep(COST_S / 4)
                yield self.text[first : first + 64], self.text[first + 1 : first + 65]


def _language_model():
    return torch.nn.Sequential(torch.nn.Embedding(64, 64), torch.nn.Linear(64, 64))


def llama2c():
    """The next batch is fetched behind the step; the loss is estimated on loaders made for it."""
    same_each_time()
    torch.manual_seed(1337)
    net, truth = _language_model(), Truth()
    optimizer = torch.optim.AdamW(net.parameters(), lr=5e-4, betas=(0.9, 0.95))

    def iter_batches(split):
        loader = DataLoader(_Pretokenised(42 + (split == "val")), batch_size=16, num_workers=0)
        for x, y in loader:
            yield x.to("cpu", non_blocking=True), y.to("cpu", non_blocking=True)

    def loss_of(x, y):
        return F.cross_entropy(net(x).flatten(0, 1), y.flatten())

    @torch.no_grad()
    def estimate_loss():
        net.eval()
        for split in ("train", "val"):
            feed = iter_batches(split)
            for _ in range(10):
                loss_of(*next(feed))
        net.train()

    feed = iter_batches("train")
    x, y = next(feed)
    for number in range(150):
        if number % 50 == 0:
            estimate_loss()
        with truth.training():
            for _ in range(4):
                loss = loss_of(x, y) / 4
                x, y = next(feed)
                loss.backward()
                truth.trained(16, loss.item())
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            time.sleep(STEP_S)
    truth.tell()


class _Cycle:
    """litgpt's CycleIterator."""

    def __init__(self, iterable):
        self.iterable, self.epoch, self.feed = iterable, 0, None

    def __iter__(self):
        return self

    def __next__(self):
        if self.feed is None:
            self.feed = iter(self.iterable)
        try:
            return next(self.feed)
        except StopIteration:
            self.epoch += 1
            self.feed = iter(self.iterable)
            return next(self.feed)


def litgpt_cycle():
    """fit: one endless iterator, micro-batches, a validation at every fortieth iteration."""
    trainer = Trainer()
    train = _Cycle(DataLoader(Images(400), batch_size=8, shuffle=True))
    check = DataLoader(Images(160), batch_size=8)
    trainer.truth.begin()
    for number, (x, y) in enumerate(train, 1):
        loss = F.cross_entropy(trainer.net(x), y) / 2
        loss.backward()
        trainer.truth.trained(len(x), loss.item())
        if number % 2 == 0:
            trainer.optimizer.step()
            trainer.optimizer.zero_grad()
            time.sleep(STEP_S)
        if number % 40 == 0:
            trainer.truth.end()
            trainer.net.eval()
            with torch.no_grad():
                for held, _ in itertools.islice(check, 10):
                    trainer.net(held)
            trainer.net.train()
            trainer.truth.begin()
        if number == 160:
            break
    trainer.truth.end()
    trainer.truth.tell()


class _Background(threading.Thread):
    """prefetch_generator's: a thread that reads ahead, itself the iterator."""

    def __init__(self, generator):
        super().__init__(daemon=True)
        self.queue, self.generator = queue.Queue(3), generator
        self.start()

    def run(self):
        for item in self.generator:
            self.queue.put(item)
        self.queue.put(None)

    def __iter__(self):
        return self

    def __next__(self):
        item = self.queue.get()
        if item is None:
            raise StopIteration
        return item


class _LoaderX(DataLoader):
    """DataLoaderX of many repositories."""

    def __iter__(self):
        return _Background(super().__iter__())


def loader_x():
    """A subclass of DataLoader whose batches a thread reads ahead, with a slow step."""
    trainer = Trainer()
    loader = _LoaderX(Images(400), batch_size=16, shuffle=True, num_workers=1)
    for _ in range(3):
        with trainer.truth.training():
            for x, y in loader:
                trainer.step(x, y)
                time.sleep(2 * STEP_S)
    trainer.truth.tell()


class _InfiniteSampler(Sampler):
    """mmengine's: indices without an end."""

    def __init__(self, data):
        self.size = len(data)

    def __iter__(self):
        draws = torch.Generator().manual_seed(11)
        while True:
            yield from torch.randperm(self.size, generator=draws).tolist()

    def __len__(self):
        return self.size


def mmengine_iterations():
    """IterBasedTrainLoop: an infinite sampler, lists as batches, a validation at each thirtieth."""
    trainer, data = Trainer(), Images(300)
    loader = DataLoader(
        data,
        batch_size=8,
        sampler=_InfiniteSampler(data),
        num_workers=1,
        persistent_workers=True,
        collate_fn=lambda rows: {"inputs": rows},
    )
    check = DataLoader(Images(80), batch_size=1, collate_fn=lambda rows: {"inputs": rows})
    feed = iter(loader)

    def pictures(rows):
        return torch.stack([x for x, _ in rows["inputs"]])

    for number in range(1, 121):
        with trainer.truth.training():
            rows = next(feed)
            trainer.step(pictures(rows), torch.tensor([y for _, y in rows["inputs"]]))
            time.sleep(STEP_S)
        if number % 30 == 0:
            trainer.net.eval()
            with torch.no_grad():
                for rows in check:
                    trainer.net(pictures(rows))
            trainer.net.train()
    trainer.truth.tell()


def wgan_gp():
    """Five steps of the critic on batches of their own, with a penalty, then one of the other."""
    same_each_time()
    critic, maker, truth = model(1), torch.nn.Linear(8, 768), Truth()
    of_critic = torch.optim.Adam(critic.parameters(), 1e-4, betas=(0.0, 0.9))
    of_maker = torch.optim.Adam(maker.parameters(), 1e-4, betas=(0.0, 0.9))
    loader = DataLoader(Images(400), batch_size=16, shuffle=True, drop_last=True)

    def endless():
        while True:
            yield from loader

    feed = endless()

    def made():
        return maker(torch.randn(16, 8)).reshape(-1, 3, 16, 16)

    with truth.training():
        for _ in range(30):
            for _ in range(5):
                real, fake = next(feed)[0], made().detach()
                mixed = (real + torch.rand(16, 1, 1, 1) * (fake - real)).requires_grad_()
                (grad,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
                penalty = (grad.flatten(1).norm(dim=1) - 1).pow(2).mean()
                loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
                of_critic.zero_grad()
                loss.backward()
                of_critic.step()
                truth.trained(16, loss.item())
            of_maker.zero_grad()
            (-critic(made()).mean()).backward()
            of_maker.step()
    truth.tell()


class _Scenes(Dataset):
    """Pictures of several sizes, with as many boxes as there are."""

    def __init__(self, length):
        self.images = Images(length)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image, label = self.images[index]
        boxes = torch.full((index % 4, 4), 0.5)
        return image[:, : 8 + index % 9], {"boxes": boxes, "label": label}


def detr():
    """A batch sampler, tuples of pictures and of dictionaries, a criterion per picture."""
    trainer, data = Trainer(), _Scenes(320)
    batches = torch.utils.data.BatchSampler(RandomSampler(data), 8, drop_last=True)
    loader = DataLoader(
        data, batch_sampler=batches, collate_fn=lambda rows: tuple(zip(*rows, strict=True))
    )
    for _ in range(3):
        trainer.net.train()
        with trainer.truth.training():
            for pictures, targets in loader:
                padded = torch.zeros(len(pictures), 3, 16, 16)
                for place, picture in enumerate(pictures):
                    padded[place, :, : picture.shape[1]] = picture
                trainer.step(padded, torch.tensor([one["label"] for one in targets]))
                time.sleep(STEP_S)
    trainer.truth.tell()


def checkpointed():
    """Activations computed again in the backward pass, reentrant; GradScaler and autocast."""
    trainer, loader = Trainer(), DataLoader(Images(400), batch_size=16, shuffle=True)
    scaler = torch.amp.GradScaler("cpu")
    for _ in range(3):
        with trainer.truth.training():
            for x, y in loader:
                with torch.autocast("cpu", torch.bfloat16):
                    held = trainer.net[:2](x.requires_grad_())
                    out = checkpoint(trainer.net[2:], held, use_reentrant=True)
                    loss = F.cross_entropy(out.float(), y)
                scaler.scale(loss).backward()
                scaler.step(trainer.optimizer)
                scaler.update()
                trainer.optimizer.zero_grad()
                trainer.truth.trained(len(x), loss.item())
                time.sleep(STEP_S)
    trainer.truth.tell()


def compiled_fused():
    """The whole of it compiled, optimiser included, a loader for each shard of the data."""
    same_each_time()
    net, truth = model(), Truth()
    optimizer = torch.optim.Adam(net.parameters(), lr=torch.tensor(1e-3))

    @torch.compile(backend="eager")
    def step(x, y):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    for shard in range(4):
        loader = DataLoader(Images(800 + 16 * shard), batch_size=16, shuffle=True)
        with truth.training():
            for x, y in loader:
                truth.trained(len(x), step(x, y).item())
                time.sleep(STEP_S)
    truth.tell()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
