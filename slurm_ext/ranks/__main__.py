"""python -m slurm_ext.ranks --ranks-per-gpu 2 train.py …: so many ranks of it on each GPU."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from slurm_ext.ranks.free_port import free_port
from slurm_ext.ranks.layout import rank_layout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

POLL_S = 0.1
GRACE_S = 10.0  # between SIGTERM and SIGKILL


def main(argv: Sequence[str] | None = None) -> int:
    """Start the ranks and wait; the first that fails ends the others, and its status is ours."""
    parser = argparse.ArgumentParser(prog="python -m slurm_ext.ranks", description=__doc__)
    parser.add_argument("--ranks-per-gpu", type=int, required=True, metavar="R")
    parser.add_argument("script", help="the training, run by this same Python")
    parser.add_argument("args", nargs=argparse.REMAINDER)
    args = parser.parse_args(argv)
    try:
        node = rank_layout(args.ranks_per_gpu, os.environ, free_port())
    except ValueError as error:
        parser.error(str(error))
    command = [sys.executable, args.script, *args.args]
    shared = {"OMP_NUM_THREADS": "1", **os.environ}  # as torchrun: ranks share the job's cores
    ranks = [subprocess.Popen(command, env={**shared, **own}) for own in node.environments()]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, _handing_on(ranks))
    return _wait(ranks)


def _handing_on(
    ranks: Sequence[subprocess.Popen[bytes]],
) -> Callable[[int, FrameType | None], None]:
    """A handler that passes a signal of the launcher on to its ranks."""

    def tell(number: int, _: FrameType | None) -> None:
        for rank in ranks:
            if rank.poll() is None:
                rank.send_signal(number)

    return tell


def _wait(ranks: Sequence[subprocess.Popen[bytes]]) -> int:
    while any(rank.poll() is None for rank in ranks):
        failed = next((rank for rank in ranks if rank.poll()), None)
        if failed is not None:
            _end(ranks)
            return _status(failed)
        time.sleep(POLL_S)
    return max((_status(rank) for rank in ranks), default=0)


def _end(ranks: Sequence[subprocess.Popen[bytes]]) -> None:
    """End the other ranks: they would wait for ever for one that has died."""
    for rank in ranks:
        rank.terminate()
    end_s = time.monotonic() + GRACE_S
    for rank in ranks:
        try:
            rank.wait(max(0.0, end_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            rank.kill()


def _status(rank: subprocess.Popen[bytes]) -> int:
    """The exit status as in a shell: 128 and the signal's number if one ended it."""
    code = rank.returncode
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main())
