"""Torch's own examples that the list lacked: `python -m ...newcomers.examples NAME`."""

import itertools
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.utils.data import DataLoader, Dataset

from contrib.bench.foreign.programs.data import Images, model
from contrib.bench.foreign.programs.truth import Truth, same_each_time

STEP_S = 0.006  # as if an accelerator computed: a loop whose loader is not all that it waits for


def vae():
    """A sum as loss; after each epoch a test without steps, and pictures from noise."""
    same_each_time()
    truth = Truth()
    body, head = torch.nn.Linear(768, 40), torch.nn.Linear(20, 768)
    net = torch.nn.ModuleList([body, head])
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    train = DataLoader(Images(480), batch_size=16, shuffle=True)
    test = DataLoader(Images(160), batch_size=16, shuffle=False)

    def loss_of(x):
        x = torch.sigmoid(x.flatten(1))
        mu, logvar = body(x).chunk(2, 1)
        made = torch.sigmoid(head(mu + torch.randn_like(mu) * (0.5 * logvar).exp()))
        apart = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum()
        return F.binary_cross_entropy(made, x, reduction="sum") + apart

    for _ in range(3):
        net.train()
        with truth.training():
            for x, _ in train:
                optimizer.zero_grad()
                loss = loss_of(x)
                loss.backward()
                optimizer.step()
                truth.trained(len(x), loss.item())
                time.sleep(STEP_S)
        net.eval()
        with torch.no_grad():
            for x, _ in test:
                loss_of(x)
            head(torch.randn(64, 20))
    truth.tell()


class _Pairs(Dataset):
    """Two pictures, and whether they are of one class."""

    def __init__(self, length):
        self.images = Images(length)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        one, label = self.images[index]
        other = (index * 7 + 3) % len(self.images)
        return one, self.images[other][0], torch.tensor(float(other % 10 == label))


def siamese():
    """Triples as batches, Adadelta, StepLR; a test in larger batches of another split."""
    same_each_time()
    net, truth = model(1), Truth()
    train = DataLoader(_Pairs(320), batch_size=16, shuffle=True, num_workers=1, pin_memory=False)
    test = DataLoader(_Pairs(160), batch_size=80)
    optimizer = torch.optim.Adadelta(net.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    for _ in range(3):
        net.train()
        with truth.training():
            for one, other, target in train:
                optimizer.zero_grad()
                found = torch.sigmoid(net(one) - net(other)).squeeze()
                loss = F.binary_cross_entropy(found, target)
                loss.backward()
                optimizer.step()
                truth.trained(len(one), loss.item())
        net.eval()
        with torch.no_grad():
            for one, other, _ in test:
                net(one) - net(other)
        schedule.step()
    truth.tell()


def neural_style():
    """A fixed network's features; every tenth batch the model is kept, in evaluation mode."""
    same_each_time()
    net, seen, truth = torch.nn.Conv2d(3, 3, 3, padding=1), model()[:2].eval(), Truth()
    seen.requires_grad_(False)
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    loader = DataLoader(Images(480), batch_size=8)
    with tempfile.TemporaryDirectory() as folder:
        for epoch in range(2):
            net.train()
            with truth.training():
                for number, (x, _) in enumerate(loader):
                    optimizer.zero_grad()
                    loss = F.mse_loss(seen(net(x)), seen(x))
                    loss.backward()
                    optimizer.step()
                    truth.trained(len(x), loss.item())
                    time.sleep(STEP_S)
                    if (number + 1) % 10 == 0:
                        net.eval().cpu()
                        torch.save(net.state_dict(), Path(folder, f"{epoch}-{number}.pth"))
                        net.to("cpu").train()
    truth.tell()


def time_sequence():
    """LBFGS on the whole of the data, by closures: a step is twenty passes."""
    torch.manual_seed(0)
    truth = Truth()
    data = torch.sin((torch.arange(200.0)[None] + torch.arange(24.0)[:, None] * 4) / 20)
    cell, head = torch.nn.LSTM(1, 24, batch_first=True), torch.nn.Linear(24, 1)
    both = torch.nn.ModuleList([cell, head])
    optimizer = torch.optim.LBFGS(both.parameters(), lr=0.8)
    x, y = data[:, :-1, None], data[:, 1:, None]
    with truth.training():
        for _ in range(30):

            def closure():
                optimizer.zero_grad()
                loss = F.mse_loss(head(cell(x)[0]), y)
                loss.backward()
                return loss

            truth.trained(len(x), optimizer.step(closure).item())
            with torch.no_grad():
                head(cell(x[:3])[0])
    truth.tell()


def regression():
    """Weights moved by hand after each backward pass, until the loss is small: no optimiser."""
    same_each_time()
    truth = Truth()
    target, offset = torch.randn(4, 1) * 5, torch.randn(1) * 5
    net = torch.nn.Linear(4, 1)
    with truth.training():
        for number in itertools.count(1):
            x = torch.randn(32, 1)
            x = torch.cat([x**i for i in range(1, 5)], 1)
            net.zero_grad()
            loss = F.smooth_l1_loss(net(x), x.mm(target) + offset)
            loss.backward()
            for parameter in net.parameters():
                parameter.data.add_(-0.1 * parameter.grad)
            truth.trained(32, loss.item())
            time.sleep(STEP_S)
            if number == 400:
                break
    truth.tell()


def actor_critic():
    """One step at the end of each game, which lasts as long as it does."""
    same_each_time()
    torch.manual_seed(543)
    net, truth = torch.nn.Linear(4, 3), Truth()
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-2)
    with truth.training():
        for game in range(150):
            state, logs, gains = torch.zeros(4), [], []
            for move in range(10 + game % 20):
                out = net(state)
                chance = torch.distributions.Categorical(logits=out[:2])
                act = chance.sample()
                logs.append((chance.log_prob(act), out[2]))
                state = torch.sin(state + act + move)
                gains.append(state.sum().item())
            back = torch.tensor(gains).flip(0).cumsum(0).flip(0)
            back = (back - back.mean()) / (back.std() + 1e-6)
            optimizer.zero_grad()
            pairs = zip(logs, back, strict=True)
            loss = torch.stack(
                [-log * (b - v.item()) + (v - b) ** 2 for (log, v), b in pairs]
            ).sum()
            loss.backward()
            optimizer.step()
            truth.trained(1, loss.item())
    truth.tell()


def graph_convolution():
    """A whole graph in memory: one step an epoch, a validation after each of them."""
    torch.manual_seed(42)
    truth, nodes = Truth(), 600
    edges = (torch.rand(nodes, nodes) < 0.01).float() + torch.eye(nodes)
    edges /= edges.sum(1, keepdim=True)
    x, y = torch.randn(nodes, 64), torch.arange(nodes) % 7
    one, two = torch.nn.Linear(64, 32), torch.nn.Linear(32, 7)
    net = torch.nn.ModuleList([one, two])
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)

    def found():
        return edges @ two(torch.relu(edges @ one(x)))

    with truth.training():
        for _ in range(200):
            net.train()
            optimizer.zero_grad()
            loss = F.cross_entropy(found()[:300], y[:300])
            loss.backward()
            optimizer.step()
            truth.trained(300, loss.item())
            net.eval()
            with torch.no_grad():
                found()[300:].argmax(1)
            time.sleep(STEP_S)
    truth.tell()


def forward_forward():
    """Layers that train one after the other, each for itself, on one batch of all data."""
    same_each_time()
    truth = Truth()
    rows = DataLoader(Images(300), batch_size=300, shuffle=True)
    x, y = next(iter(rows))
    x = x.flatten(1)
    good, bad = x.clone(), x.clone()
    good[range(len(x)), y] = x.max()
    bad[range(len(x)), (y + 1) % 10] = x.max()
    layers = [torch.nn.Linear(768, 64), torch.nn.Linear(64, 64)]
    steppers = [torch.optim.Adam(layer.parameters(), lr=0.03) for layer in layers]
    with truth.training():
        for layer, optimizer in zip(layers, steppers, strict=True):
            for _ in range(150):
                pushed = torch.relu(layer(good)).pow(2).mean(1)
                pulled = torch.relu(layer(bad)).pow(2).mean(1)
                loss = torch.log1p(torch.cat([2 - pushed, pulled - 2]).exp()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                truth.trained(len(x), loss.item())
                time.sleep(STEP_S)
            good, bad = torch.relu(layer(good)).detach(), torch.relu(layer(bad)).detach()
    truth.tell()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
