"""Trainings of several processes that no launcher started: `...newcomers.processes NAME`."""

import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.utils.data import DataLoader, Subset

from contrib.bench.foreign.programs.data import Images
from contrib.bench.foreign.programs.feeding import Trainer
from contrib.bench.foreign.programs.truth import Truth, same_each_time

STEP_S = 0.01


def _fold(number):
    """One fold's training, in a process of a pool."""
    torch.set_num_threads(1)
    trainer, data = Trainer(), Images(360)
    held = range(number * 90, number * 90 + 90)
    rest = [index for index in range(360) if index not in held]
    for _ in range(3):
        with trainer.truth.training():
            for x, y in DataLoader(Subset(data, rest), batch_size=18, shuffle=True):
                trainer.step(x, y)
                time.sleep(STEP_S)
        with torch.no_grad():
            for x, _ in DataLoader(Subset(data, held), batch_size=45):
                trainer.net(x)
    trainer.truth.tell()
    return number


def folds_in_a_pool():
    """Two folds side by side in forked processes, one training each."""
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(_fold, range(2), chunksize=1)
        pool.close()
        pool.join()


def trial_in_a_process():
    """Each trial of a search in a process of its own, which ends with it."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
        pool.submit(_fold, 0).result()


def _play(number, weights, played):
    """An actor: games with the learner's weights, for ever."""
    torch.set_num_threads(1)
    torch.manual_seed(number)
    state = torch.zeros(8)
    while True:
        net = torch.from_numpy(weights.get())
        seen, acts, gains = [], [], []
        for _ in range(32):
            out = torch.tanh(net @ state)
            act = out[:2].argmax()
            seen.append(state)
            acts.append(act)
            state = torch.sin(state + act + torch.arange(8))
            gains.append(state.sum())
        played.put([torch.stack(part).numpy() for part in (seen, acts, gains)])


def impala():
    """Actors in processes send what they played; the learner steps on each of it."""
    same_each_time()
    context = multiprocessing.get_context("fork")
    weights, played = context.Queue(), context.Queue()
    actor = context.Process(target=_play, args=(1, weights, played), daemon=True)
    actor.start()
    net, truth = torch.nn.Linear(8, 3, bias=False), Truth()
    optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    weights.put(torch.eye(3, 8).numpy())
    with truth.training():
        for _ in range(200):
            seen, acts, gains = map(torch.from_numpy, played.get())
            out = net(seen)
            log = F.log_softmax(out[:, :2], 1).gather(1, acts[:, None])[:, 0]
            loss = -(log * (gains - out[:, 2].detach())).mean() + (out[:, 2] - gains).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            truth.trained(32, loss.item())
            weights.put(net.weight.detach().numpy().copy())
            time.sleep(STEP_S)
    actor.terminate()
    truth.tell()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
