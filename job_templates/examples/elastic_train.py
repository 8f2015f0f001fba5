"""A training that stops at any time and goes on at another size, its loss curve unbroken.

One process a GPU (a Slurm task). The global batch stays: each process takes its part of it, and
gradients are summed over all, so a step is the same whatever the size. On SIGTERM (Slurm sends it
on `scontrol requeue`) all agree on a step, the first writes the checkpoint, and the next start
reads it. It tells dlqueue what it measures, in dlqueue-elastic-JOBID.json: with the word
DLQUEUE_ELASTIC=MIN-MAX in the job's comment, GPUs are given and taken by it.
"""

import contextlib
import csv
import json
import os
import signal
import time

import torch
import torch.distributed as dist

BATCH = 48  # samples a step, over all processes
STEPS = int(os.environ.get("ELASTIC_STEPS", "400"))
SAMPLE_S = float(os.environ.get("ELASTIC_SAMPLE_S", "0.002"))  # what a GPU would take
FOLDER = os.environ.get("ELASTIC_FOLDER", os.getcwd())
JOB = os.environ.get("SLURM_JOB_ID", "0")
RANK = int(os.environ.get("SLURM_PROCID", os.environ.get("RANK", "0")))
SIZE = int(os.environ.get("SLURM_NTASKS", os.environ.get("WORLD_SIZE", "1")))
NODES = int(os.environ.get("SLURM_JOB_NUM_NODES", "1"))
TELL_EVERY = 20  # steps

stop = False


def on_signal(*_):
    global stop
    stop = True


def path(name):
    return os.path.join(FOLDER, name)


def replaced(name, save):
    """Whole or not at all: `save` writes to another path first."""
    save(path(name + ".new"))
    os.replace(path(name + ".new"), path(name))


def as_json(body, to):
    with open(to, "w") as file:
        json.dump(body, file)


def parts_on(size):
    """Micro-steps: one GPU takes two, because one gradient alone says nothing of their noise."""
    return 2 if size == 1 else 1


def samples(step):
    """This step's batch, the same at every size; and the part of it that is ours."""
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(BATCH, 16, generator=generator)
    y = torch.sin(x.sum(1, keepdim=True)) + 0.1 * torch.randn(BATCH, 1, generator=generator)
    return x[RANK::SIZE], y[RANK::SIZE]


def gradient(model, x, y):
    """Of the sum of losses, flat; and that sum."""
    model.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y, reduction="sum")
    loss.backward()
    time.sleep(SAMPLE_S * len(x))
    return torch.cat([p.grad.flatten() for p in model.parameters()]), loss.detach()


def mixed(old, new, share):
    """A running mean."""
    return [(1 - share) * a + share * b for a, b in zip(old or new, new, strict=True)]


class Told:
    """What was measured: seconds of each part of a step, and how noisy gradients are."""

    def __init__(self, known):
        self.known = known  # size -> [compute_s, sync_s]
        self.noise = None

    def step(self, compute_s, sync_s):
        self.known[str(SIZE)] = mixed(self.known.get(str(SIZE)), (compute_s, sync_s), 0.1)

    def gradients(self, squares, count, whole):
        """Mean |g|^2 of `count` parts of the batch, and |g|^2 of it all (McCandlish, 2018)."""
        square = max((count * whole - squares) / (count - 1), 1e-12)
        variance = max((squares - whole) / (count - 1), 1e-12)
        self.noise = mixed(self.noise, (square, variance), 0.05)

    def write(self, step):
        """What control/elastic/job_report.py reads."""
        steps = [
            {
                "gpus": int(n),
                "nodes": NODES if int(n) == SIZE else 1,
                "local": BATCH / int(n) / parts_on(int(n)),
                "compute_s": c,
                "sync_s": s,
            }
            for n, (c, s) in self.known.items()
        ]
        limits = {"initial": BATCH, "most": BATCH, "local_least": 1, "local_most": BATCH}
        noise = {"square": self.noise[0], "variance": self.noise[1]}
        report = {"v": 1, "left": STEPS - step, "limits": limits, "noise": noise, "steps": steps}
        replaced(f"dlqueue-elastic-{JOB}.json", lambda to: as_json(report, to))


def update(model, optimizer, flat):
    at = 0
    for p in model.parameters():
        p.grad = flat[at : at + p.numel()].view_as(p).clone()
        at += p.numel()
    optimizer.step()


def one_step(model, optimizer, step, told):
    """The mean loss of the whole batch."""
    x, y = samples(step)
    began = time.perf_counter()
    parts = list(zip(x.chunk(parts_on(SIZE)), y.chunk(parts_on(SIZE)), strict=True))
    found = [gradient(model, *part) for part in parts]
    flat = sum(g for g, _ in found)
    means = [g / len(x) for (g, _), (x, _) in zip(found, parts, strict=True)]
    squares = sum(mean.square().sum() for mean in means)
    loss = sum(one for _, one in found)
    message = torch.cat([flat, loss.view(1), squares.view(1), torch.tensor([float(stop)])])
    computed = time.perf_counter()
    dist.all_reduce(message)
    synced = time.perf_counter()
    flat = message[:-3] / BATCH
    update(model, optimizer, flat)
    count = SIZE * len(parts)
    told.step((computed - began) / len(parts), synced - computed)
    told.gradients(message[-2].item() / count, count, flat.square().sum().item())
    return message[-3].item() / BATCH, message[-1].item() > 0


def start(model, optimizer):
    """The first step that is left, and what earlier sizes measured."""
    try:
        kept = torch.load(path("checkpoint.pt"))
    except FileNotFoundError:
        return 0, Told({})
    model.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
    return kept["step"], Told(kept["known"])


def keep(model, optimizer, step, told):
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    state |= {"step": step, "known": told.known}
    replaced("checkpoint.pt", lambda to: torch.save(state, to))
    told.write(step)


def forget(step):
    """Losses after the checkpoint: those steps come again."""
    with contextlib.suppress(FileNotFoundError), open(path("loss.csv"), newline="") as file:
        rows = [row for row in csv.reader(file) if int(row[0]) <= step]
        with open(path("loss.csv.new"), "w", newline="") as new:
            csv.writer(new).writerows(rows)
        os.replace(path("loss.csv.new"), path("loss.csv"))


def log(step, loss):
    with open(path("loss.csv"), "a", newline="") as file:
        csv.writer(file).writerow([step, SIZE, repr(loss)])


def main():
    signal.signal(signal.SIGTERM, on_signal)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    restart = os.environ.get("SLURM_RESTART_COUNT", os.environ.get("ELASTIC_RESTART", "0"))
    meet = path(f"meet-{JOB}-{restart}")
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=RANK, world_size=SIZE)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    step, told = start(model, optimizer)
    stopped = False
    if RANK == 0:
        forget(step)
    while step < STEPS and not stopped:
        loss, stopped = one_step(model, optimizer, step, told)
        step += 1
        if RANK == 0:
            log(step, loss)
            if stopped or step == STEPS or step % TELL_EVERY == 0:
                keep(model, optimizer, step, told)
    dist.barrier()
    dist.destroy_process_group()
    with contextlib.suppress(FileNotFoundError):
        os.remove(meet)
    if RANK == 0:
        print(f"{'stopped' if step < STEPS else 'done'} at step {step} on {SIZE}", flush=True)


if __name__ == "__main__":
    main()
