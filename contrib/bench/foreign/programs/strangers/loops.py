"""Loops that programs write themselves: `python -m ...strangers.loops NAME`."""

import copy
import math
import sys

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.utils.data import DataLoader

from contrib.bench.foreign.programs.data import Images, model, tokens
from contrib.bench.foreign.programs.feeding import Trainer
from contrib.bench.foreign.programs.truth import Truth, same_each_time


def speedrun():
    """modded-nanoGPT: two optimisers in each step, windows of a text, evaluations in between."""
    same_each_time()
    text, truth = tokens(), Truth()
    net = torch.nn.Sequential(torch.nn.Embedding(64, 128), torch.nn.Linear(128, 64))
    steppers = [torch.optim.Adam(net[0].parameters()), torch.optim.SGD(net[1].parameters(), 1e-2)]

    def windows(seed, size=16):
        draws = torch.Generator().manual_seed(seed)
        starts = torch.randint(len(text) - 65, (size,), generator=draws)
        made = torch.stack([text[first : first + 65] for first in starts])
        return made[:, :-1], made[:, 1:]

    for number in range(600):
        if number % 150 == 0:
            net.eval()
            with torch.no_grad():
                for seed in range(40):
                    x, y = windows(seed)
                    F.cross_entropy(net(x).flatten(0, 1), y.flatten())
            net.train()
        with truth.training():
            x, y = windows(1000 + number)
            loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
            loss.backward()
            for stepper in steppers:
                stepper.step()
            net.zero_grad(set_to_none=True)
            truth.trained(len(x), loss.item())
    truth.tell()


def sharpness_aware():
    """SAM: two passes for each batch, the second at a neighbour of the weights."""
    trainer = Trainer()
    loader = DataLoader(Images(), batch_size=16, shuffle=True)
    for _ in range(3):
        with trainer.truth.training():
            for x, y in loader:
                F.cross_entropy(trainer.net(x), y).backward()
                moved = []
                with torch.no_grad():
                    for parameter in trainer.net.parameters():
                        move = 0.05 * parameter.grad / (parameter.grad.norm() + 1e-12)
                        parameter.add_(move)
                        moved.append((parameter, move))
                trainer.optimizer.zero_grad()
                loss = F.cross_entropy(trainer.net(x), y)
                loss.backward()
                with torch.no_grad():
                    for parameter, move in moved:
                        parameter.sub_(move)
                trainer.optimizer.step()
                trainer.optimizer.zero_grad()
                trainer.truth.trained(len(x), loss.item())
    trainer.truth.tell()


def by_hand():
    """Weights moved by hand under no_grad, batches of a loader: no optimiser at all."""
    same_each_time()
    net, truth = model(), Truth()
    loader = DataLoader(Images(), batch_size=16, shuffle=True)
    held_out = DataLoader(Images(120), batch_size=40)
    for _ in range(3):
        with truth.training():
            for x, y in loader:
                loss = F.cross_entropy(net(x), y)
                grads = torch.autograd.grad(loss, list(net.parameters()))
                with torch.no_grad():
                    for parameter, grad in zip(net.parameters(), grads, strict=True):
                        parameter.sub_(1e-3 * grad)
                truth.trained(len(x), loss.item())
        with torch.no_grad():
            for x, y in held_out:
                F.cross_entropy(net(x), y)
    truth.tell()


def functional():
    """torch.func: a stateless call, a step that returns new weights."""
    same_each_time()
    net, truth = model(), Truth()
    weights = {name: one.detach() for name, one in net.named_parameters()}

    def loss_of(weights, x, y):
        return F.cross_entropy(torch.func.functional_call(net, weights, (x,)), y)

    step = torch.func.grad_and_value(loss_of)
    loader = DataLoader(Images(), batch_size=16, shuffle=True)
    for _ in range(3):
        with truth.training():
            for x, y in loader:
                grads, loss = step(weights, x, y)
                weights = {name: weights[name] - 1e-3 * grads[name] for name in weights}
                truth.trained(len(x), loss.item())
    truth.tell()


def cleanrl_ppo():
    """One file: games side by side, a rollout, then epochs of minibatches by hand."""
    same_each_time()
    torch.manual_seed(1)
    net, truth, games, length = torch.nn.Linear(4, 3), Truth(), 8, 64
    optimizer = torch.optim.Adam(net.parameters(), lr=2.5e-4, eps=1e-5)
    state = torch.zeros(games, 4)
    with truth.training():
        for update in range(30):
            optimizer.param_groups[0]["lr"] = (1 - update / 30) * 2.5e-4
            seen, acts, logs, gains = [], [], [], []
            for _ in range(length):
                with torch.no_grad():
                    out = net(state)
                    choice = torch.distributions.Categorical(logits=out[:, :2])
                    act = choice.sample()
                seen.append(state)
                acts.append(act)
                logs.append(choice.log_prob(act))
                state = torch.sin(state + act[:, None] + torch.arange(4))
                gains.append(state.sum(1))
            flat = [torch.cat(part) for part in (seen, acts, logs, gains)]
            for _ in range(4):
                for part in torch.randperm(games * length).split(128):
                    x, a, old, gain = (one[part] for one in flat)
                    out = net(x)
                    new = torch.distributions.Categorical(logits=out[:, :2]).log_prob(a)
                    loss = -(gain * (new - old).exp()).mean() + (out[:, 2] - gain).pow(2).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                    optimizer.step()
                    truth.trained(len(x), loss.item())
    truth.tell()


def resumed():
    """A checkpoint in the middle of an epoch: the rest of it is read after a skip."""
    trainer = Trainer()
    loader = DataLoader(Images(1600), batch_size=16, shuffle=True, num_workers=1)
    kept = None
    for epoch in range(3):
        with trainer.truth.training():
            feed = iter(loader)
        for _ in range(10 if kept is not None else 0):
            next(feed)
        with trainer.truth.training():
            for place, (x, y) in enumerate(feed):
                trainer.step(x, y)
                if epoch == 0 and place == 9:
                    kept = copy.deepcopy(trainer.net.state_dict())
                    break
    trainer.truth.tell()


def scheduled_diffusion():
    """diffusers' unconditional example in small: noise, a moving average, a schedule."""
    same_each_time()
    net, truth = torch.nn.Conv2d(3, 3, 3, padding=1), Truth()
    average = copy.deepcopy(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    steps = 75
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda n: 0.5 * (1 + math.cos(math.pi * n / steps))
    )
    alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0)
    loader = DataLoader(Images(), batch_size=16, shuffle=True)
    for epoch in range(3):
        with truth.training():
            for clean, _ in loader:
                noise = torch.randn_like(clean)
                at = alphas[torch.randint(1000, (len(clean),))].reshape(-1, 1, 1, 1)
                loss = F.mse_loss(net(at.sqrt() * clean + (1 - at).sqrt() * noise), noise)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
                with torch.no_grad():
                    for old, new in zip(average.parameters(), net.parameters(), strict=True):
                        old.lerp_(new, 0.01)
                truth.trained(len(clean), loss.item())
        if epoch % 2 == 0:  # samples
            with torch.no_grad():
                picture = torch.randn(4, 3, 16, 16)
                for _ in range(200):
                    picture = picture - 0.01 * average(picture)
    truth.tell()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
