"""Ways to train that the list lacked until the end: `python -m ...newcomers.latecomers NAME`."""

import itertools
import multiprocessing
import random
import sys
import threading
import time
from collections import deque

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.utils.data import DataLoader, TensorDataset

from contrib.bench.foreign.programs.data import Images, Stream, model
from contrib.bench.foreign.programs.feeding import Trainer
from contrib.bench.foreign.programs.truth import Truth, same_each_time

STEP_S = 0.01  # as if an accelerator computed


def greedy_layers():
    """Greedy layerwise training from a loader: each layer has its optimiser and its epochs."""
    same_each_time()
    truth, body = Truth(), torch.nn.Identity()
    loader = DataLoader(Images(320), batch_size=16, shuffle=True)
    for layer, (wide, epochs) in enumerate(((64, 2), (32, 4), (16, 2))):
        entrance = 768 if layer == 0 else 128 >> layer
        block, head = torch.nn.Linear(entrance, wide), torch.nn.Linear(wide, 10)
        optimizer = torch.optim.Adam([*block.parameters(), *head.parameters()], 1e-3)
        with truth.training():
            for x, y in itertools.chain.from_iterable(itertools.repeat(loader, epochs)):
                with torch.no_grad():
                    features = body(x.flatten(1))
                loss = F.cross_entropy(head(torch.relu(block(features))), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                truth.trained(len(x), loss.item())
                time.sleep(STEP_S * (layer + 1))
        body = torch.nn.Sequential(body, block, torch.nn.ReLU())
    truth.tell()


def replay_buffer():
    """DQN on a game of its own: no loader, a target network, steps once enough was played."""
    same_each_time()
    truth, memory, draws = Truth(), deque(maxlen=2000), random.Random(3)
    net, target = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    state = torch.zeros(4)
    for move in range(600):
        if move == 100:
            truth.begin()
        act = draws.randrange(2) if draws.random() < 0.2 else int(net(state).argmax())
        after = torch.sin(state + act + move)
        memory.append((state, act, after.sum(), after))
        state = after
        if move < 100:
            continue
        states, acts, gains, nexts = zip(*draws.sample(memory, 32), strict=True)
        with torch.no_grad():
            wanted = torch.stack(gains) + 0.9 * target(torch.stack(nexts)).max(1).values
        chosen = net(torch.stack(states)).gather(1, torch.tensor(acts)[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(chosen, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        truth.trained(32, loss.item())
        time.sleep(STEP_S)
        if move % 50 == 0:
            target.load_state_dict(net.state_dict())
    truth.end()
    truth.tell()


def diffusion_averaged():
    """Noise is predicted; a running mean of the weights samples after each epoch."""
    trainer = Trainer()
    net = torch.nn.Conv2d(3, 3, 3, padding=1)
    mean = torch.optim.swa_utils.AveragedModel(
        net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99)
    )
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    loader = DataLoader(Images(480), batch_size=16, shuffle=True, drop_last=True)
    for _ in range(3):
        net.train()
        with trainer.truth.training():
            for x, _ in loader:
                noise, level = torch.randn_like(x), torch.rand(len(x), 1, 1, 1)
                loss = F.mse_loss(net(x * (1 - level) + noise * level), noise)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                mean.update_parameters(net)
                trainer.truth.trained(len(x), loss.item())
                time.sleep(STEP_S)
        mean.eval()
        with torch.no_grad():
            drawn = torch.randn(8, 3, 16, 16)
            for _ in range(30):
                drawn = drawn - 0.03 * mean(drawn)
                time.sleep(STEP_S)
    trainer.truth.tell()


def loss_scaled():
    """Steps that overflow are left out, as GradScaler does it; two batches to a step."""
    trainer = Trainer()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
    loader = DataLoader(Images(480), batch_size=16, shuffle=True)
    for epoch in range(3):
        with trainer.truth.training():
            for number, (x, y) in enumerate(loader):
                loss = F.cross_entropy(trainer.net(x), y) / 2
                broken = epoch == 0 and number < 6
                scaler.scale(loss * (float("inf") if broken else 1.0)).backward()
                time.sleep(STEP_S)
                if number % 2:
                    scaler.step(trainer.optimizer)
                    scaler.update()
                    trainer.optimizer.zero_grad()
                trainer.truth.trained(len(x), loss.item())
    trainer.truth.tell()


def early_stopped_stream():
    """A stream by two workers, left in the middle of each round; then validated on another."""
    trainer = Trainer()
    for _ in range(4):
        loader = DataLoader(Stream(2000), batch_size=16, num_workers=2)
        with trainer.truth.training():
            for x, y in itertools.islice(loader, 40):
                trainer.step(x, y)
                time.sleep(STEP_S)
        trainer.net.eval()
        with torch.no_grad():
            for x, _ in DataLoader(Stream(160), batch_size=32):
                trainer.net(x)
        trainer.net.train()
    trainer.truth.tell()


def by_vmapped_gradients():
    """torch.func: gradients of each sample, clipped and added up; weights are plain tensors."""
    same_each_time()
    truth, net = Truth(), torch.nn.Linear(768, 10)
    weights = {name: value.detach() for name, value in net.named_parameters()}

    def loss_of(weights, x, y):
        out = torch.func.functional_call(net, weights, (x.flatten()[None],))
        return F.cross_entropy(out, y[None])

    gradients = torch.vmap(torch.func.grad_and_value(loss_of), in_dims=(None, 0, 0))
    for _ in range(3):
        with truth.training():
            for x, y in DataLoader(Images(480), batch_size=16, shuffle=True):
                steps, losses = gradients(weights, x, y)
                weights = {
                    name: value - 1e-3 * steps[name].clamp(-1, 1).mean(0)
                    for name, value in weights.items()
                }
                truth.trained(len(x), losses.mean().item())
                time.sleep(STEP_S)
    truth.tell()


def curriculum():
    """The data grow harder: longer sets in larger batches, one loader of tensors for each."""
    trainer = Trainer()
    images = torch.stack([x for x, _ in map(Images(600).__getitem__, range(600))])
    labels = torch.arange(600) % 10
    for size, part in ((8, 200), (16, 400), (32, 600)):
        rows = TensorDataset(images[:part], labels[:part])
        for _ in range(2):
            loader = DataLoader(rows, batch_size=size, shuffle=True)
            with trainer.truth.training():
                for x, y in loader:
                    trainer.step(x, y)
                    time.sleep(STEP_S * size / 16)
    trainer.truth.tell()


def several_accumulated():
    """Two towers with an optimiser each step together after every fourth pair of zipped batches."""
    same_each_time()
    truth, towers = Truth(), [model(), model()]
    steppers = [torch.optim.AdamW(tower.parameters(), 1e-3) for tower in towers]
    texts = DataLoader(Images(480), batch_size=16, shuffle=True)
    pictures = DataLoader(Images(480), batch_size=16, shuffle=True)
    for _ in range(3):
        with truth.training():
            for number, ((a, _), (b, _)) in enumerate(zip(texts, pictures, strict=True), 1):
                alike = F.normalize(towers[0](a)) @ F.normalize(towers[1](b)).T
                loss = F.cross_entropy(alike / 0.1, torch.arange(len(a))) / 4
                loss.backward()
                time.sleep(STEP_S)
                if number % 4 == 0 or number == len(texts):
                    for stepper in steppers:
                        stepper.step()
                        stepper.zero_grad()
                truth.trained(len(a), loss.item())
    truth.tell()


def hand_moved_threads():
    """Two threads on shared weights, which each moves by hand after its backward passes."""
    same_each_time()
    net, truth = model(), Truth()
    x, y = torch.randn(16, 3, 16, 16), torch.arange(16) % 10

    def work():
        for _ in range(200):
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            for parameter in net.parameters():
                parameter.data.sub_(parameter.grad, alpha=1e-4)  # the other thread goes on with it
            truth.trained(16, 0.0)
            time.sleep(STEP_S)

    threads = [threading.Thread(target=work) for _ in range(2)]
    with truth.training():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    truth.tell()


def _spawned(seed):
    torch.manual_seed(seed)
    Trainer().fit(DataLoader(Images(480), batch_size=16, shuffle=True), 4).truth.tell()


def spawned_training():
    """The whole training in a process that is spawned, so that its memory goes with it."""
    child = multiprocessing.get_context("spawn").Process(target=_spawned, args=((1 << 40) + 7,))
    child.start()
    child.join()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
