"""Torch alone, as its examples and tutorials train: `python -m ...plain NAME`."""

import argparse
import random
import sys

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.utils.data import DataLoader, RandomSampler

from .data import Images, model
from .truth import Truth, same_each_time


def train(net, loader, optimizer, truth, epochs=3):
    for _ in range(epochs):
        net.train()
        with truth.training():
            for data, target in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(net(data), target)
                loss.backward()
                optimizer.step()
                truth.trained(len(data), loss.item())


def evaluate(net, loader):
    net.eval()
    with torch.no_grad():
        return sum((net(data).argmax(1) == target).sum().item() for data, target in loader)


def mnist():
    """examples/mnist: --seed 1 by default, a test loader with another batch size."""
    torch.manual_seed(1)
    net, truth = model(), Truth()
    train_loader = DataLoader(Images(), batch_size=16, shuffle=True)
    test_loader = DataLoader(Images(100), batch_size=50)
    optimizer = torch.optim.Adadelta(net.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    for _ in range(3):
        train(net, train_loader, optimizer, truth, epochs=1)
        evaluate(net, test_loader)
        scheduler.step()
    truth.tell()


def quickstart():
    """The tutorial's quick start: no seed, no workers."""
    same_each_time()
    net, truth = model(), Truth()
    loader = DataLoader(Images(), batch_size=16, shuffle=True)
    train(net, loader, torch.optim.SGD(net.parameters(), lr=1e-3), truth)
    truth.tell()


def imagenet():
    """examples/imagenet main.py --seed 0 -j 1: every generator pinned, workers kept."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-j", "--workers", type=int, default=1)
    args = parser.parse_args([])
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    def flip(image):
        return image.flip(2) if torch.rand(1).item() < 0.5 else image

    net, truth = model(), Truth()
    train_loader = DataLoader(
        Images(transform=flip), batch_size=16, shuffle=True, num_workers=args.workers
    )
    val_loader = DataLoader(Images(100), batch_size=16, num_workers=args.workers)
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    for _ in range(3):
        train(net, train_loader, optimizer, truth, epochs=1)
        evaluate(net, val_loader)
    truth.tell()


def augmented():
    """No seed, no workers, and random numbers drawn by the dataset in the training process."""
    same_each_time()

    def noisy(image):
        return image + 0.1 * torch.randn_like(image) + random.random()

    net, truth = model(), Truth()
    loader = DataLoader(Images(transform=noisy), batch_size=16, shuffle=True)
    train(net, loader, torch.optim.SGD(net.parameters(), lr=1e-3), truth)
    truth.tell()


def gan():
    """The DCGAN example: two optimisers, the critic's step and the generator's for each batch."""
    same_each_time()
    maker = torch.nn.Sequential(torch.nn.Linear(16, 768), torch.nn.Tanh())
    critic = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(768, 1))
    of_critic = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
    of_maker = torch.optim.Adam(maker.parameters(), lr=2e-4, betas=(0.5, 0.999))
    truth = Truth()
    for _ in range(3):
        with truth.training():
            for real, _ in DataLoader(Images(), batch_size=16, shuffle=True):
                critic.zero_grad()
                made = maker(torch.randn(len(real), 16)).reshape(real.shape)
                loss = F.softplus(-critic(real)).mean() + F.softplus(critic(made.detach())).mean()
                loss.backward()
                of_critic.step()
                maker.zero_grad()
                F.softplus(-critic(made)).mean().backward()
                of_maker.step()
                truth.trained(len(real), loss.item())
    truth.tell()


def accumulation():
    """Gradients of four batches for each step."""
    same_each_time()
    net, truth = model(), Truth()
    optimizer = torch.optim.AdamW(net.parameters())
    loader = DataLoader(Images(), batch_size=8, shuffle=True)
    for _ in range(3):
        with truth.training():
            for i, (data, target) in enumerate(loader):
                loss = F.cross_entropy(net(data), target) / 4
                loss.backward()
                if (i + 1) % 4 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
                truth.trained(len(data), loss.item())
    truth.tell()


def mixed_precision():
    """torch.amp with a GradScaler, which is off on a CPU."""
    same_each_time()
    net, truth = model(), Truth()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu")
    for _ in range(3):
        with truth.training():
            for data, target in DataLoader(Images(), batch_size=16, shuffle=True):
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = F.cross_entropy(net(data), target)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad(set_to_none=True)
                truth.trained(len(data), loss.item())
    truth.tell()


def compiled():
    """A compiled model; `eager` because a compiler for C++ may be missing."""
    same_each_time()
    net, truth = model(), Truth()
    fast = torch.compile(net, backend="eager")
    loader = DataLoader(Images(), batch_size=16, shuffle=True, drop_last=True)
    train(fast, loader, torch.optim.SGD(net.parameters(), lr=1e-3), truth)
    truth.tell()


def compiled_step():
    """The whole step compiled, optimiser included."""
    same_each_time()
    net, truth = model(), Truth()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)

    @torch.compile(backend="eager")
    def step(data, target):
        loss = F.cross_entropy(net(data), target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    loader = DataLoader(Images(), batch_size=16, shuffle=True, drop_last=True)
    for _ in range(4):
        with truth.training():
            for data, target in loader:
                truth.trained(len(data), step(data, target).item())
    truth.tell()


def mingpt():
    """minGPT's trainer: a sampler with replacement and without end."""
    torch.manual_seed(3407)
    net, truth = model(), Truth()
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4)
    data = Images()
    loader = DataLoader(
        data,
        sampler=RandomSampler(data, replacement=True, num_samples=int(1e10)),
        shuffle=False,
        batch_size=16,
        num_workers=0,
    )
    with truth.training():
        batches = iter(loader)
        for _ in range(90):
            try:
                x, y = next(batches)
            except StopIteration:
                batches = iter(loader)
                x, y = next(batches)
            loss = F.cross_entropy(net(x), y)
            net.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            truth.trained(len(x), loss.item())
    truth.tell()


def closure():
    """LBFGS, which calls its closure several times for a step."""
    same_each_time()
    net, truth = model(), Truth()
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=4)
    for _ in range(3):
        with truth.training():
            for data, target in DataLoader(Images(), batch_size=16, shuffle=True):

                def again(data=data, target=target):
                    optimizer.zero_grad()
                    loss = F.cross_entropy(net(data), target)
                    loss.backward()
                    return loss

                truth.trained(len(data), optimizer.step(again).item())
    truth.tell()


def reinforcement():
    """examples/reinforcement_learning: episodes of an environment, no DataLoader."""
    torch.manual_seed(543)
    policy, truth = torch.nn.Linear(4, 2), Truth()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    with truth.training():
        for _ in range(150):
            state, told, rewards = torch.zeros(4), [], []
            for _ in range(20):
                choice = torch.distributions.Categorical(logits=policy(state))
                action = choice.sample()
                told.append(choice.log_prob(action))
                state = torch.sin(state + action + torch.arange(4))
                rewards.append(state.sum().item())
            loss = -(torch.stack(told) * torch.tensor(rewards)).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            truth.trained(20, loss.item())
    truth.tell()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
