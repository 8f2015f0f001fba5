"""Loops that step otherwise than once a batch: `python -m ...visitors.schemes NAME`."""

import sys
import time

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from contrib.bench.foreign.programs.data import COST_S, Images, model
from contrib.bench.foreign.programs.feeding import Trainer
from contrib.bench.foreign.programs.truth import Truth, same_each_time

STEP_S = 0.008  # as if an accelerator computed


class _Series(Dataset):
    def __len__(self):
        return 320

    def __getitem__(self, index):
        time.sleep(COST_S)
        return torch.sin(torch.arange(41.0) / 5 + index)


def truncated_backpropagation():
    """A recurrent network: four steps for each batch, a part of the series each."""
    same_each_time()
    truth, cell, head = Truth(), torch.nn.GRU(1, 16, batch_first=True), torch.nn.Linear(16, 1)
    optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], 1e-3)
    for _ in range(4):
        with truth.training():
            for series in DataLoader(_Series(), batch_size=16, shuffle=True):
                state = None
                for first in range(0, 40, 10):
                    part, wanted = series[:, first : first + 10], series[:, first + 1 : first + 11]
                    out, state = cell(part[..., None], state)
                    loss = F.mse_loss(head(out)[..., 0], wanted)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    state = state.detach()
                    time.sleep(STEP_S / 4)
                truth.trained(len(series), loss.item())
    truth.tell()


def gradient_cache():
    """GradCache: features of all parts without gradients, then a backward pass for each part."""
    same_each_time()
    truth, net = Truth(), model(16)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    for _ in range(3):
        with truth.training():
            for x, _ in DataLoader(Images(480), batch_size=32, shuffle=True):
                parts = [*x.split(8), *x.flip(3).split(8)]
                with torch.no_grad():
                    features = torch.cat([net(part) for part in parts]).requires_grad_()
                one, other = F.normalize(features, dim=1).chunk(2)
                loss = F.cross_entropy(one @ other.T / 0.1, torch.arange(len(x)))
                loss.backward()
                kept = features.grad.split([len(part) for part in parts])
                for part, gradient in zip(parts, kept, strict=True):
                    (net(part) * gradient).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
                truth.trained(len(x), loss.item())
                time.sleep(STEP_S)
    truth.tell()


class _Lookahead(torch.optim.Optimizer):
    """An optimiser around another one, whose step it calls within its own."""

    def __init__(self, base, every=5, share=0.5):
        self.base, self.every, self.share, self.made = base, every, share, 0
        super().__init__(base.param_groups, {})
        self.slow = [p.detach().clone() for group in base.param_groups for p in group["params"]]

    @torch.no_grad()
    def step(self, closure=None):
        loss = self.base.step(closure)
        self.made += 1
        if self.made % self.every == 0:
            fast = [p for group in self.param_groups for p in group["params"]]
            for slow, parameter in zip(self.slow, fast, strict=True):
                slow.lerp_(parameter, self.share)
                parameter.copy_(slow)
        return loss


def lookahead():
    """An optimiser of one's own that steps another one."""
    trainer = Trainer()
    trainer.optimizer = _Lookahead(trainer.optimizer)
    loader = DataLoader(Images(480), batch_size=16, shuffle=True)
    for _ in range(3):
        with trainer.truth.training():
            for x, y in loader:
                trainer.step(x, y)
                time.sleep(STEP_S)
    trainer.truth.tell()


def physics_informed():
    """An equation's residual by nested derivatives: Adam first, then LBFGS; no data at all."""
    same_each_time()
    truth = Truth()
    net = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))

    def residual():
        t = torch.linspace(0, 1, 64)[:, None].requires_grad_()
        u = net(t)
        du = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
        ddu = torch.autograd.grad(du.sum(), t, create_graph=True)[0]
        time.sleep(STEP_S)
        return (ddu + 9 * u).square().mean() + (u[0] - 1).square().mean()

    adam = torch.optim.Adam(net.parameters(), 1e-3)
    with truth.training():
        for _ in range(200):
            loss = residual()
            adam.zero_grad()
            loss.backward()
            adam.step()
            truth.trained(64, loss.item())
        lbfgs = torch.optim.LBFGS(net.parameters(), max_iter=4)

        def closure():
            lbfgs.zero_grad()
            loss = residual()
            loss.backward()
            return loss

        for _ in range(20):
            truth.trained(64, lbfgs.step(closure).item())
    truth.tell()


class _Neighbourhoods(IterableDataset):
    """Parts of a graph: features of all nodes of a part, labels of its seeds."""

    def __iter__(self):
        for first in range(0, 640, 16):
            time.sleep(16 * COST_S)
            seeds = torch.arange(first, first + 16)
            nodes = torch.cat([seeds, (seeds[:, None] * 7 + torch.arange(1, 4)).flatten() % 640])
            nodes = torch.unique(nodes)
            yield torch.sin(nodes[:, None] * torch.arange(1.0, 9)), seeds % 4, nodes


def neighbourhoods():
    """Sampled neighbours: a batch is a subgraph of other sizes each time, its seeds are few."""
    same_each_time()
    truth, layer = Truth(), torch.nn.Linear(8, 4)
    optimizer = torch.optim.Adam(layer.parameters(), 1e-2)
    for _ in range(3):
        with truth.training():
            for features, labels, _ in DataLoader(_Neighbourhoods(), batch_size=None):
                mean = features.mean(0, keepdim=True)
                loss = F.cross_entropy(layer(features[: len(labels)] + mean), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                truth.trained(len(labels), loss.item())
                time.sleep(STEP_S)
    truth.tell()


def seeds_by_collate():
    """DGL's way: the loader's items are node numbers, `collate_fn` finds their neighbours."""
    same_each_time()
    truth, layer = Truth(), torch.nn.Linear(8, 4)

    def block(seeds):
        seeds = torch.tensor(seeds)
        time.sleep(len(seeds) * COST_S)
        nodes = torch.cat([seeds, (seeds[:, None] * 7 + torch.arange(1, 4)).flatten() % 640])
        return torch.sin(nodes[:, None] * torch.arange(1.0, 9)), seeds % 4

    optimizer = torch.optim.Adam(layer.parameters(), 1e-2)
    loader = DataLoader(range(640), batch_size=16, shuffle=True, collate_fn=block)
    for _ in range(3):
        with truth.training():
            for features, labels in loader:
                loss = F.cross_entropy(layer(features[: len(labels)]), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                truth.trained(len(labels), loss.item())
                time.sleep(STEP_S)
    truth.tell()


def statistics_renewed():
    """Averaged weights, and after the training a pass in training mode for batch norm alone."""
    same_each_time()
    truth = Truth()
    net = torch.nn.Sequential(torch.nn.BatchNorm2d(3), model())
    mean = torch.optim.swa_utils.AveragedModel(net)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    schedule = torch.optim.swa_utils.SWALR(optimizer, swa_lr=5e-4)
    loader = DataLoader(Images(480), batch_size=16, shuffle=True)
    for _ in range(3):
        with truth.training():
            for x, y in loader:
                loss = F.cross_entropy(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                truth.trained(len(x), loss.item())
                time.sleep(STEP_S)
        mean.update_parameters(net)
        schedule.step()
        torch.optim.swa_utils.update_bn(loader, mean)
    truth.tell()


def profiled():
    """torch.profiler's schedule around the loop, each part of it named, a scripted model."""
    trainer = Trainer()
    trainer.net = torch.jit.trace(trainer.net, torch.zeros(16, 3, 16, 16))
    trainer.optimizer = torch.optim.SGD(trainer.net.parameters(), lr=1e-3)
    loader = DataLoader(Images(480), batch_size=16, shuffle=True)
    schedule = torch.profiler.schedule(wait=5, warmup=2, active=3, repeat=1)
    for _ in range(3):
        with trainer.truth.training(), torch.profiler.profile(schedule=schedule) as watched:
            for x, y in loader:
                with torch.profiler.record_function("step"):
                    trainer.step(x, y)
                    time.sleep(STEP_S)
                watched.step()
    trainer.truth.tell()


def mixed_from_two():
    """Mixup of two loaders with other batch sizes; the smaller one starts again at its end."""
    trainer = Trainer()
    large = DataLoader(Images(480), batch_size=16, shuffle=True)
    small = DataLoader(Images(60), batch_size=8, shuffle=True)
    others = iter(small)
    for _ in range(3):
        with trainer.truth.training():
            for x, y in large:
                try:
                    other, _ = next(others)
                except StopIteration:
                    others = iter(small)
                    other, _ = next(others)
                share = float(torch.distributions.Beta(1.0, 1.0).sample())
                trainer.step(share * x + (1 - share) * other.mean(0), y)
                time.sleep(STEP_S)
    trainer.truth.tell()


def evolved():
    """Evolution strategies: weights move by the losses of neighbours; nothing is differentiated."""
    same_each_time()
    truth, weights = Truth(), torch.zeros(768, 10)
    for _ in range(3):
        with truth.training(), torch.no_grad():
            for x, y in DataLoader(Images(320), batch_size=16, shuffle=True):
                ways = torch.randn(4, 768, 10)
                out = [F.cross_entropy(x.flatten(1) @ (weights + 0.1 * way), y) for way in ways]
                losses = torch.stack(out)
                weights -= 0.01 * ((losses - losses.mean())[:, None, None] * ways).mean(0)
                truth.trained(len(x), losses.mean().item())
                time.sleep(STEP_S)
    truth.tell()


def several_epochs_of_minibatches():
    """PPO-like: what was gathered becomes a set of tensors, and a short loader of many passes."""
    trainer = Trainer()
    trainer.truth.begin()
    for number in range(12):
        images = torch.sin(torch.arange(64.0 * 768).reshape(64, 3, 16, 16) * (number + 1))
        time.sleep(0.03)
        rollout = TensorDataset(images, torch.arange(64) % 10)
        for _ in range(4):
            for x, y in DataLoader(rollout, batch_size=16, shuffle=True):
                trainer.step(x, y)
                time.sleep(STEP_S)
    trainer.truth.end()
    trainer.truth.tell()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
