"""Ten real jobs of one core each: six kernels and four trainings.

    kernels.py KIND --data FOLDER --steps N --log FILE    runs N steps and logs them
    kernels.py KIND --data FOLDER --serve                 measures on demand (see `serve`)

Jobs on a node contend for the last level cache and the bandwidth of memory, for its latency, and
for the disk. At least two jobs need each of them. Jobs that press on memory use several times the
last level cache of a server's share (32 MiB); jobs that press on the core fit the core's caches;
jobs that read the disk read it each time, as with a data set larger than the page cache (emulated
by dropping the file's pages, posix_fadvise), and each has a file of its own. No policy had run on
these sizes when they were set, but they are not blind: a first set with memory alone hardly
contended on the measured machine, so sort and lstm read the disk, too.
  stream    three arrays of 64 MB: memory bandwidth (McCalpin's triad)
  product   square matrices of 512 in float32, blocked by BLAS: the core alone
  chase     dependent gathers in 256 MB: the latency of memory
  sort      eight million integers, 64 MB, read in order from the disk: memory, branches, disk
  compress  zlib over a quarter MiB: the core alone
  read      a file in order: the disk
  mlp       a perceptron in cache: the core alone
  conv      a small CNN; each of 16 images a step is read from its own place: the disk's latency
  embed     an embedding of 512 MB with 32768 random look-ups a step: memory
  lstm      a small recurrent net; each of 16 sequences a step is read from its own place: the same
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
READERS = ("sort", "read", "conv", "lstm")


def make_files(folder: Path) -> None:
    """A file for each kind that reads one; it does not compress."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind in READERS:
        path = folder / kind
        if not path.exists() or path.stat().st_size != FILE_MIB * MIB:
            _make_file(path)


def _make_file(path: Path) -> None:
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
    links = dice.permutation(256 * MIB // 8)
    at = dice.integers(0, len(links), 100_000)
    out = np.empty_like(at)

    def step() -> None:
        for _ in range(4):
            np.take(links, at, out=out, mode="clip")
            at[:] = out

    return step


def sort(data: Path, _dice: np.random.Generator) -> Step:
    """Eight million integers of the file, the first phase of sorting what exceeds memory."""
    more = _in_order(data / "sort", np.zeros(8 * MIB, np.int64))
    return lambda: more().sort()


def compress(_data: Path, dice: np.random.Generator) -> Step:
    """A quarter MiB."""
    import zlib

    text = dice.integers(0, 12, MIB // 4).astype(np.uint8).tobytes()
    return lambda: zlib.compress(text, 6)


def read(data: Path, _dice: np.random.Generator) -> Step:
    """Eight MiB in order."""
    return _in_order(data / "read", np.zeros(MIB, np.int64))


def _in_order(path: Path, array: "np.ndarray[Any, Any]") -> Callable[[], Any]:
    """Fills the array with what comes next; each pass over the file comes from the disk again."""
    file = os.open(path, os.O_RDONLY)
    parts = [array.data.cast("B")[at : at + MIB] for at in range(0, array.nbytes, MIB)]
    at = [0]

    def more() -> Any:
        if at[0] == 0:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        for part in parts:
            os.preadv(file, [part], at[0] * MIB)
            at[0] = (at[0] + 1) % FILE_MIB
        return array

    return more


def _here_and_there(path: Path, size: int, dice: np.random.Generator) -> Callable[[], bytearray]:
    """Reads so many bytes at a random place of the file, from the disk."""
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
    buffer = bytearray(size)

    def sample() -> bytearray:
        at = int(dice.integers(0, FILE_MIB * MIB // size)) * size
        os.posix_fadvise(file, at, size, os.POSIX_FADV_DONTNEED)
        os.preadv(file, [buffer], at)
        return buffer

    return sample


def mlp(_data: Path, dice: np.random.Generator) -> Step:
    """A batch of 64 through three layers of 256."""
    torch = _torch()
    layers = torch.nn
    net = layers.Sequential(
        layers.Linear(256, 256),
        layers.ReLU(),
        layers.Linear(256, 256),
        layers.ReLU(),
        layers.Linear(256, 10),
    )
    x = torch.tensor(dice.random((64, 256)), dtype=torch.float32)
    return _step(net, lambda: net(x), torch.tensor(dice.integers(0, 10, 64)))


def conv(data: Path, dice: np.random.Generator) -> Step:
    """A batch of 16 images, each read from its own place in the file."""
    torch = _torch()
    layers = torch.nn
    net = layers.Sequential(
        layers.Conv2d(3, 8, 3),
        layers.ReLU(),
        layers.MaxPool2d(4),
        layers.Flatten(),
        layers.Linear(8 * 7 * 7, 10),
    )
    sample = _here_and_there(data / "conv", SAMPLE, dice)

    def image() -> Any:
        pixels = np.frombuffer(sample(), np.uint8)[: 3 * 32 * 32]
        return pixels.reshape(3, 32, 32).astype(np.float32) / 255

    def forward() -> Any:
        return net(torch.tensor(np.stack([image() for _ in range(16)])))

    return _step(net, forward, torch.tensor(dice.integers(0, 10, 16)))


def embed(_data: Path, dice: np.random.Generator) -> Step:
    """32768 look-ups in 512 MB, with sparse updates."""
    torch = _torch()
    rows = 4_000_000
    table = torch.nn.EmbeddingBag(rows, 32, sparse=True)
    top = torch.nn.Linear(32, 10)
    net = torch.nn.ModuleList([table, top])
    target = torch.tensor(dice.integers(0, 10, 1024))

    def forward() -> Any:
        return top(table(torch.tensor(dice.integers(0, rows, (1024, 32)))))

    return _step(net, forward, target)


def lstm(data: Path, dice: np.random.Generator) -> Step:
    """16 sequences of 16 steps, each of 4 KiB read from its own place in the file."""
    torch = _torch()
    body, top = torch.nn.LSTM(64, 64, batch_first=True), torch.nn.Linear(64, 10)
    net = torch.nn.ModuleList([body, top])
    sample = _here_and_there(data / "lstm", 16 * 64 * 4, dice)
    target = torch.tensor(dice.integers(0, 10, 16))

    def sequence() -> Any:
        codes = np.frombuffer(sample(), np.uint32).reshape(16, 64)
        return codes.astype(np.float32) / 2**32

    def forward() -> Any:
        return top(body(torch.tensor(np.stack([sequence() for _ in range(16)])))[0][:, -1])

    return _step(net, forward, target)


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
        spent = {"steps": steps, "wall_s": time.perf_counter() - began}
        print(json.dumps({**spent, "queued_s": queued_s() - before}), flush=True)


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
