"""Ten real jobs of one core each: six kernels and four trainings.

    pairs_kernels.py KIND --data FILE --steps N --log FILE     runs N steps and tells how it went
    pairs_kernels.py KIND --data FILE --serve                  measures on demand (see `serve`)

Chosen for what they press on, at the sizes that are usual, and before anything was measured beside
one another but for a first look at what this machine has:
  stream    arrays of 64 MB, beyond any cache: memory bandwidth (McCalpin's triad)
  product   square matrices of 512 in float32, blocked by BLAS: the core alone
  chase     dependent gathers in 16 MB, which fit the last level cache: what evicts it, hurts it
  sort      two million doubles: caches and branches
  compress  zlib over a MiB: the core alone
  read      a file of 256 MB in order, not from the page cache: the disk
  mlp       a perceptron in cache: the core alone
  conv      a small CNN whose samples are read here and there in a file too large for the page cache
  embed     an embedding of a million rows with random look-ups: memory
  lstm      a small recurrent net: the core alone
A data set that exceeds the page cache is emulated by dropping the file's pages (posix_fadvise).
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # one core each, as Slurm gives it

import numpy as np  # noqa: E402 (it reads the variables above)

BEGAN_S = time.time()
Step = Callable[[], object]
MIB = 1 << 20
FILE_MIB = 256
SAMPLE = 1 << 16  # bytes of one stored image with its augmentations
KERNELS = ("stream", "product", "chase", "sort", "compress", "read")
TRAININGS = ("mlp", "conv", "embed", "lstm")
KINDS = KERNELS + TRAININGS


def make_file(path: Path) -> None:
    """The file that `read` and `conv` read; it does not compress."""
    if path.exists() and path.stat().st_size == FILE_MIB * MIB:
        return
    dice = np.random.default_rng(7)
    with path.open("wb") as file:
        for _ in range(FILE_MIB):
            file.write(dice.bytes(MIB))
        file.flush()
        os.fsync(file.fileno())


def stream(_data: Path, dice: np.random.Generator) -> Step:
    """One triad: 24 bytes a row."""
    a, b, c = dice.random(8_000_000), dice.random(8_000_000), np.zeros(8_000_000)

    def step() -> None:
        np.multiply(a, 3.0, out=c)
        np.add(c, b, out=c)

    return step


def product(_data: Path, dice: np.random.Generator) -> Step:
    """Four products."""
    a = dice.random((512, 512)).astype(np.float32)
    out = np.zeros_like(a)

    def step() -> None:
        for _ in range(4):
            np.matmul(a, a, out=out)

    return step


def chase(_data: Path, dice: np.random.Generator) -> Step:
    """100,000 chains, four links each."""
    links = dice.permutation(16 * MIB // 8)
    at = dice.integers(0, len(links), 100_000)
    out = np.empty_like(at)

    def step() -> None:
        for _ in range(4):
            np.take(links, at, out=out, mode="clip")
            at[:] = out

    return step


def sort(_data: Path, dice: np.random.Generator) -> Step:
    """One sort of the same disorder."""
    disorder = dice.random(2_000_000)
    work = disorder.copy()

    def step() -> None:
        work[:] = disorder
        work.sort()

    return step


def compress(_data: Path, dice: np.random.Generator) -> Step:
    """A quarter MiB."""
    import zlib

    text = dice.integers(0, 12, MIB // 4).astype(np.uint8).tobytes()
    return lambda: zlib.compress(text, 6)


def read(data: Path, _dice: np.random.Generator) -> Step:
    """Eight MiB in order; each pass over the file comes from the disk again."""
    file = os.open(data, os.O_RDONLY)
    buffer, at = bytearray(MIB), [0]

    def step() -> None:
        if at[0] == 0:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        for _ in range(8):
            os.preadv(file, [buffer], at[0] * MIB)
            at[0] = (at[0] + 1) % FILE_MIB

    return step


def mlp(_data: Path, dice: np.random.Generator) -> Step:
    """A batch of 64 through three layers of 256."""
    torch = _torch()
    layers = torch.nn
    net = layers.Sequential(
        layers.Linear(256, 256), layers.ReLU(), layers.Linear(256, 256), layers.ReLU(),
        layers.Linear(256, 10),
    )  # fmt: skip
    x = torch.tensor(dice.random((64, 256)), dtype=torch.float32)
    return _step(net, lambda: net(x), torch.tensor(dice.integers(0, 10, 64)))


def conv(data: Path, dice: np.random.Generator) -> Step:
    """A batch of 16 images, each read from its own place in the file."""
    torch = _torch()
    layers = torch.nn
    net = layers.Sequential(
        layers.Conv2d(3, 8, 3), layers.ReLU(), layers.MaxPool2d(4), layers.Flatten(),
        layers.Linear(8 * 7 * 7, 10),
    )  # fmt: skip
    file = os.open(data, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
    buffer = bytearray(SAMPLE)

    def image() -> Any:
        at = int(dice.integers(0, FILE_MIB * MIB // SAMPLE)) * SAMPLE
        os.posix_fadvise(file, at, SAMPLE, os.POSIX_FADV_DONTNEED)
        os.preadv(file, [buffer], at)
        pixels = np.frombuffer(buffer, np.uint8)[: 3 * 32 * 32]
        return pixels.reshape(3, 32, 32).astype(np.float32) / 255

    def forward() -> Any:
        return net(torch.tensor(np.stack([image() for _ in range(16)])))

    return _step(net, forward, torch.tensor(dice.integers(0, 10, 16)))


def embed(_data: Path, dice: np.random.Generator) -> Step:
    """4096 look-ups in 128 MB, with sparse updates."""
    torch = _torch()
    rows = 1_000_000
    table = torch.nn.EmbeddingBag(rows, 32, sparse=True)
    top = torch.nn.Linear(32, 10)
    net = torch.nn.ModuleList([table, top])
    target = torch.tensor(dice.integers(0, 10, 256))

    def forward() -> Any:
        return top(table(torch.tensor(dice.integers(0, rows, (256, 16)))))

    return _step(net, forward, target)


def lstm(_data: Path, dice: np.random.Generator) -> Step:
    """16 sequences of 16 steps."""
    torch = _torch()
    body, top = torch.nn.LSTM(64, 64, batch_first=True), torch.nn.Linear(64, 10)
    net = torch.nn.ModuleList([body, top])
    x = torch.tensor(dice.random((16, 16, 64)), dtype=torch.float32)
    target = torch.tensor(dice.integers(0, 10, 16))
    return _step(net, lambda: top(body(x)[0][:, -1]), target)


def _torch() -> Any:
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(3)
    return torch


def _step(net: Any, forward: Callable[[], Any], target: Any) -> Step:
    """One training step."""
    torch = _torch()

    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    lose = torch.nn.functional.cross_entropy

    def step() -> None:
        optimizer.zero_grad()
        lose(forward(), target).backward()
        optimizer.step()

    return step


def make(kind: str, data: Path) -> Step:
    """One step of the kind's work, warm."""
    step: Step = globals()[kind](data, np.random.default_rng(1))
    for _ in range(3):
        step()
    return step


def queued_s() -> float:
    """Seconds that this thread was ready and had no core: work of strangers, not of its pair."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


def serve(step: Step) -> None:
    """For each line `SECONDS CORE` on stdin: work so long, print {steps, wall_s, queued_s}."""
    print("ready", flush=True)
    for line in sys.stdin:
        seconds, core = line.split()
        os.sched_setaffinity(0, {int(core)})
        began, before, steps = time.perf_counter(), queued_s(), 0
        while time.perf_counter() - began < float(seconds):
            step()
            steps += 1
        told = {"steps": steps, "wall_s": time.perf_counter() - began}
        print(json.dumps({**told, "queued_s": queued_s() - before}), flush=True)


def work(step: Step, steps: int, log: Path, began_s: float) -> None:
    """All steps; the log has {began_s, rows: [[Unix seconds, steps done, seconds queued], ...]}.

    A row about every 0.1 s. `began_s` is the process's start, before its imports.
    """
    rows = [(time.time(), 0, queued_s())]
    for done in range(1, steps + 1):
        step()
        if time.time() - rows[-1][0] >= 0.1 or done == steps:
            rows.append((time.time(), done, queued_s()))
    hidden = log.with_suffix(".part")
    hidden.write_text(json.dumps({"began_s": began_s, "rows": rows}))
    hidden.replace(log)


def main() -> None:
    """As the first lines say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--serve", action="store_true")
    args = parser.parse_args()
    step = make(args.kind, args.data)
    if args.serve:
        serve(step)
    else:
        work(step, args.steps, args.log, BEGAN_S)


if __name__ == "__main__":
    main()
