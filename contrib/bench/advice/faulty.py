"""A real training with one fault: its samples sleep, spin or read, and its step is a timed wait."""

import argparse
import os
import random
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset[torch.Tensor]):
    """Samples that cost what the arguments say; some of them many times as much."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.files = sorted(Path(args.files).iterdir()) if args.files else []

    def __len__(self) -> int:
        return int(self.args.batches * self.args.batch)

    def __getitem__(self, index: int) -> torch.Tensor:
        args = self.args
        slow = args.slow_times if random.random() < args.slow_share else 1.0
        if self.files:
            read(self.files[index % len(self.files)])
        time.sleep(slow * args.sleep_s)
        spin(slow * args.cpu_s)
        return torch.zeros(16)


def read(path: Path) -> None:
    """Read a file from storage, whatever the page cache holds of it."""
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.read()


def spin(seconds: float) -> None:
    """Use so much CPU time of this thread."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def arguments() -> argparse.Namespace:
    """The fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("sleep-s", "cpu-s", "slow-share", "host-s", "start-s"):
        parser.add_argument(f"--{name}", type=float, default=0.0)
    parser.add_argument("--slow-times", type=float, default=1.0)
    parser.add_argument("--step-s", type=float, default=0.05)
    parser.add_argument("--lasts-s", type=float, default=48.0)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--files", help="folder to read samples from")
    return parser.parse_args()


def main() -> None:
    """Train in passes until the time is over."""
    args = arguments()
    os.environ["DLQUEUE_EMULATED"] = "1"  # for the probe: the step is on no core
    torch.set_num_threads(1)
    loader = DataLoader(
        Samples(args),
        batch_size=args.batch,
        num_workers=args.workers,
        worker_init_fn=(lambda _: time.sleep(args.start_s)) if args.start_s else None,
    )
    end = time.monotonic() + args.lasts_s
    while time.monotonic() < end:
        for _ in loader:
            spin(args.host_s)
            time.sleep(max(0.0, args.step_s - args.host_s))
            if time.monotonic() >= end:
                break


if __name__ == "__main__":
    main()
