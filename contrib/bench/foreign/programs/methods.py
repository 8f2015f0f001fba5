"""Published methods, each in the shape of its authors' code: `python -m ...methods NAME`."""

import collections
import copy
import itertools
import random
import sys
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.utils.data import DataLoader, Dataset, TensorDataset

from . import declare
from .data import Images, model
from .feeding import EPOCHS, Trainer
from .truth import Truth, same_each_time


class Crops(Dataset):
    """Several views of each image, without labels."""

    def __init__(self):
        self.images = Images()

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image, _ = self.images[index]
        return [image, image.flip(2), *(image.roll(shift, 1) for shift in (2, 4))]


def self_distillation():
    """DINO: a student follows the moving average of itself, which sees the first two crops."""
    same_each_time()
    student, truth = model(), Truth()
    teacher = copy.deepcopy(student).requires_grad_(False)
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3)
    for _ in range(EPOCHS):
        with truth.training():
            for crops in truth.batches(DataLoader(Crops(), batch_size=16, drop_last=True)):
                wanted = teacher(torch.cat(crops[:2])).softmax(1).chunk(2)
                found = student(torch.cat(crops)).log_softmax(1).chunk(len(crops))
                pairs = itertools.product(wanted, found)
                loss = -sum((one * other).sum(1).mean() for one, other in pairs)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                with torch.no_grad():
                    for old, new in zip(teacher.parameters(), student.parameters(), strict=True):
                        old.mul_(0.99).add_(new, alpha=0.01)
                truth.trained(16, loss.item())
    truth.tell()


def translation():
    """CycleGAN: two kinds of pictures, zipped; a step of the generators, one of the critics."""
    same_each_time()
    truth = Truth()
    there, back = (torch.nn.Conv2d(3, 3, 3, padding=1) for _ in range(2))
    critics = [model(1), model(1)]
    makers = torch.optim.Adam([*there.parameters(), *back.parameters()], lr=2e-4)
    judges = torch.optim.Adam(itertools.chain(*(c.parameters() for c in critics)), lr=2e-4)
    kinds = [DataLoader(Images(n), batch_size=8, shuffle=True, drop_last=True) for n in (240, 320)]
    for _ in range(EPOCHS):
        with truth.training():
            for (x, _), (y, _) in truth.batches(zip(*kinds, strict=False)):
                makers.zero_grad()
                fakes = there(x), back(y)
                loss = sum(-judge(fake).mean() for judge, fake in zip(critics, fakes, strict=True))
                loss = loss + F.l1_loss(back(fakes[0]), x) + F.l1_loss(there(fakes[1]), y)
                loss.backward()
                makers.step()
                judges.zero_grad()
                each = zip(critics, fakes, (y, x), strict=True)
                sum(c(fake.detach()).mean() - c(real).mean() for c, fake, real in each).backward()
                judges.step()
                truth.trained(len(x), loss.item())
    truth.tell()


def replayed():
    """DQN: a step on moves drawn from a memory after each move; no loader."""
    same_each_time()
    net, truth = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Linear(64, 2)), Truth()
    follower, moves = copy.deepcopy(net), collections.deque(maxlen=500)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    state = torch.zeros(4)
    with truth.training():
        for number in range(1200):
            action = random.randrange(2)
            after = (state + action - 0.5).clamp(-3, 3)
            moves.append((state, action, after, float(after.sum())))
            state = after
            if len(moves) < 64:
                continue
            seen, acts, then, gains = zip(*random.sample(list(moves), 32), strict=True)
            worth = net(torch.stack(seen)).gather(1, torch.tensor(acts)[:, None])[:, 0]
            best = follower(torch.stack(then)).max(1).values.detach()
            loss = F.smooth_l1_loss(worth, torch.tensor(gains) + 0.9 * best)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            truth.trained(32, loss.item())
            if number % 100 == 0:
                follower.load_state_dict(net.state_dict())
    truth.tell()


def external_source():
    """A pipeline of one's own, as DALI's external source: threads make batches, no loader."""
    trainer, data = Trainer(), Images()

    def batch(first):
        made = [data[index] for index in range(first, first + 16)]
        return torch.stack([x for x, _ in made]), torch.tensor([y for _, y in made])

    with ThreadPoolExecutor(2) as pool, trainer.truth.training():
        for _ in range(6):
            for images, labels in pool.map(batch, range(0, len(data), 16)):
                trainer.step(images, labels)
    trainer.truth.tell()


def accelerate_accumulated():
    """Accelerate's guide: `accumulate` steps the optimiser at every fourth batch."""
    from accelerate import Accelerator

    same_each_time()
    accelerator, net, truth = Accelerator(cpu=True, gradient_accumulation_steps=4), model(), Truth()
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    loader = DataLoader(Images(800), batch_size=8, shuffle=True)
    net, optimizer, loader, schedule = accelerator.prepare(net, optimizer, loader, schedule)
    for _ in range(2):
        with truth.training():
            for x, y in truth.batches(loader):
                with accelerator.accumulate(net):
                    loss = F.cross_entropy(net(x), y)
                    accelerator.backward(loss)
                    optimizer.step()
                    schedule.step()
                    optimizer.zero_grad()
                truth.trained(len(x), loss.item())
    truth.tell()


def streamed_datasets():
    """Hugging Face's guide to streaming: shuffled by a buffer, mapped, batches by a DataLoader."""
    from datasets import Dataset as Table

    trainer, images = Trainer(), Images()
    rows = Table.from_dict({"index": list(range(len(images)))}).to_iterable_dataset(num_shards=4)
    stream = rows.shuffle(seed=5, buffer_size=64).map(
        lambda row: dict(zip(("x", "y"), images[row["index"]], strict=True))
    )
    loader = DataLoader(stream.with_format("torch"), batch_size=16)
    for epoch in range(EPOCHS):
        stream.set_epoch(epoch)
        with trainer.truth.training():
            for batch in trainer.truth.batches(loader):
                trainer.step(batch["x"], batch["y"])
    trainer.truth.tell()


def cached_features():
    """A frozen body's features are computed first, then a head is trained on them."""
    same_each_time()
    body, truth = torch.nn.Sequential(*model()[:3]), Truth()
    with torch.no_grad():
        pairs = [(body(x), y) for x, y in DataLoader(Images(600), batch_size=40)]
    features = TensorDataset(torch.cat([x for x, _ in pairs]), torch.cat([y for _, y in pairs]))
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
    declare()
    globals()[sys.argv[1]]()
