"""Loaders that are only measured, in a child and in a killed job too."""

# ruff: noqa: D103, PTH123 - written as jobs are, each named by what it does

import contextlib
import os
import sys
import time
from typing import Any

import torch
from torch.utils.data import DataLoader

from tests.probe.loader_frame import Numbers, flat, scenario


@scenario("measure")
def slow_storage() -> Any:
    def make(index: int) -> Any:
        time.sleep(0.01)
        with open(__file__, "rb") as file:
            file.read(1000)
        return torch.tensor(index)

    return flat(DataLoader(Numbers(make, 64), batch_size=4, num_workers=2), 2)


@scenario("measure")
def busy_at_home() -> Any:
    def make(index: int) -> Any:
        return torch.tensor(sum(range(20000)) * 0 + index)

    seen = []
    for batch in DataLoader(Numbers(make, 100), batch_size=8):
        time.sleep(0.005)  # the step
        seen += batch.tolist()
    return seen


@scenario("measure")
def forked_child() -> Any:
    """A child that uses a DataLoader itself has its own summary."""
    flat(DataLoader(Numbers(), batch_size=4))
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            flat(DataLoader(Numbers(), batch_size=4))
            session = sys.modules["_dlqueue_probe.process"].ProbeState.session
            session.writer.write(True)
        os._exit(0)
    os.waitpid(pid, 0)
    return None


@scenario("killed")
def killed() -> Any:
    for _batch in DataLoader(Numbers(length=100000), batch_size=4):
        time.sleep(0.01)
        if _batch[0] > 480:
            os.kill(os.getpid(), 9)
    return None
