"""A training for promises: costs of its loader and its step are arguments; it keeps time itself.

Its last line is its own clock's word, of which the probe knows nothing: samples of all processes,
and seconds from the first batch asked for to the last step's end.
"""

import argparse
import json
import multiprocessing
import os
import time
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Costly(Dataset[Any]):
    """Samples that take CPU seconds and then seconds asleep, as decoding and storage do."""

    def __init__(self, args: argparse.Namespace, samples: int) -> None:
        self.cpu_s, self.sleep_s, self.samples = args.load_cpu_s, args.load_sleep_s, samples

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        compute(self.cpu_s)
        time.sleep(self.sleep_s)
        return torch.full((64, 64), float(index % 7)), index


def compute(cpu_s: float) -> None:
    """Use a core for so many seconds, however long that takes beside others."""
    end = time.thread_time() + cpu_s
    while time.thread_time() < end:
        pass


class Step:
    """A step on a stand-in for a GPU (a timed wait), or on the CPU with torch's own threads."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.wait_s, self.products = args.step_wait_s, args.step_products
        self.left = torch.ones(384, 384)
        self.weight = torch.nn.Parameter(torch.zeros(64))
        self.optimizer = torch.optim.SGD([self.weight], lr=0.1)
        if not self.products:
            os.environ["DLQUEUE_EMULATED"] = "1"

    def do(self, batch: torch.Tensor) -> None:
        """One step of the training."""
        self.optimizer.zero_grad()
        torch.autograd.backward((batch.mean(0).mean(0) * self.weight).sum())
        for _ in range(self.products):
            torch.mm(self.left, self.left)
        time.sleep(self.wait_s)
        if torch.distributed.is_initialized():
            torch.distributed.all_reduce(self.weight.grad)
        self.optimizer.step()


def train(args: argparse.Namespace) -> dict[str, float]:
    """Train every epoch, with a validation behind each if asked."""
    loader = _loader(args)
    checked = DataLoader(Costly(args, args.validation), 2 * args.batch)
    step, samples, began_s = Step(args), 0, time.perf_counter()
    outside_s = 0.0
    for _ in range(args.epochs):
        for batch, _index in loader:
            step.do(batch)
            samples += len(batch)
        paused_s = time.perf_counter()
        for batch, _index in checked if args.validation else ():
            batch.sum()
        outside_s += time.perf_counter() - paused_s
    seconds = time.perf_counter() - began_s - outside_s
    return {"samples": samples * args.ranks, "seconds": seconds}


def _loader(args: argparse.Namespace) -> DataLoader[Any]:
    """`samples` for each rank, of its own where there are several."""
    data = Costly(args, args.samples * args.ranks)
    own: Any = DistributedSampler(data, shuffle=False) if args.ranks > 1 else None
    return DataLoader(data, args.batch, sampler=own, num_workers=args.workers)


def main(rank: int = 0) -> None:
    """Train in one process, or in as many as there are ranks."""
    args = _arguments()
    if args.threads:
        torch.set_num_threads(args.threads)
    if args.ranks > 1:
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(args.ranks)}
        store = f"file://{args.store}"
        torch.distributed.init_process_group(
            "gloo", init_method=store, rank=rank, world_size=args.ranks
        )
    measured = train(args)
    if rank == 0:
        print(json.dumps(measured), flush=True)
    if args.ranks > 1:
        torch.distributed.destroy_process_group()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("samples", 512), ("batch", 16), ("epochs", 3), ("workers", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    for name in ("validation", "threads", "step-products"):
        parser.add_argument(f"--{name}", type=int, default=0)
    for name in ("load-cpu-s", "load-sleep-s", "step-wait-s"):
        parser.add_argument(f"--{name}", type=float, default=0.0)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--store", default="", help="file at which the ranks meet")
    return parser.parse_args()


if __name__ == "__main__":
    ranks = [
        multiprocessing.get_context("fork").Process(target=main, args=(n,))
        for n in range(_arguments().ranks)
    ]
    for process in ranks[1:]:
        process.start()
    main()
    for process in ranks[1:]:
        process.join()
