"""Trainings that are lent workers; run under the probe by test_probe_lent, which plays the node.

Usage: python -m tests.probe.lent_scenarios NAME...
"""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from tests.probe.in_children import each_in_a_child

RUN_DIR = Path(os.environ["DLQUEUE_RUN_DIR"])
OWN, LENT = min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0))


class Makers(Dataset[Any]):
    """Item i is i, who made it, and with which policy its maker is scheduled."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.002)
        return torch.tensor([index, os.getpid(), os.sched_getscheduler(0)])


def _workers(iterator: Any) -> list[Any]:
    return list(iterator._workers)


def _widen(pid: int) -> None:
    os.sched_setaffinity(pid, {OWN, LENT})


def _taken_back(pid: int) -> None:
    (RUN_DIR / "lent").unlink()
    os.sched_setaffinity(pid, {OWN})
    os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))


def lent_and_taken_back() -> Any:
    """A worker is lent after 20 batches; its cores come after 60, and go once it has worked."""
    os.sched_setaffinity(0, {OWN})
    # More than it needs: on a busy machine who is idle waits long for its core.
    loader = DataLoader(Makers(2_000_000), batch_size=4, num_workers=1)
    iterator: Any = iter(loader)
    items: list[list[list[int]]] = []
    back = 1 << 30  # batches when its cores went
    for count, batch in enumerate(iterator):
        own = _workers(iterator)[0].pid
        items.append([[index, int(pid != own), policy] for index, pid, policy in batch.tolist()])
        if count == 20:
            (RUN_DIR / "lent").write_text(f"1 {LENT}\n")
        for worker in _workers(iterator)[1:] if 60 <= count < back else ():
            _widen(worker.pid)
        if 60 < count < back and items[-1][0][1] == 1:
            back = count
            _taken_back(_workers(iterator)[-1].pid)
        if count == back + 200:
            break
    parts = items[:60], items[60 : back + 1], items[back + 70 :]
    made = [row[0] for batch in items for row in batch]
    policies = {row[2] for batch in items for row in batch if row[1] == 1}
    return {
        "in_order": made == list(range(len(made))),
        "makers": [sorted({row[1] for batch in part for row in batch}) for part in parts],
        "idle_policy": policies <= {os.SCHED_IDLE, os.SCHED_OTHER} and os.SCHED_IDLE in policies,
    }


def no_file_that_counts() -> Any:
    """Whatever stands in the file, the loader goes on as the user wrote it."""
    loader = DataLoader(Makers(600), batch_size=4, num_workers=1)
    iterator: Any = iter(loader)
    texts = iter(("x", "-1 0", "1", "99999999999 a-b", "1 -0", "0 0", "1 2 3"))
    order = []
    for count, batch in enumerate(iterator):
        order += [row[0] for row in batch.tolist()]
        if count % 20 == 0:
            (RUN_DIR / "lent").write_text(next(texts, ""))
    return {"in_order": order == list(range(600)), "workers": len(_workers(iterator))}


class Pids(Dataset[Any]):
    """Item i is i and the process that made it."""

    def __len__(self) -> int:
        return 1200

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.002)
        return torch.tensor([index, os.getpid()])


def stopped_and_killed() -> Any:
    """Of two lent workers one is stopped for good, one killed, each while it holds batches."""
    os.sched_setaffinity(0, {OWN})
    (RUN_DIR / "lent").write_text(f"2 {LENT}\n")
    seeds = torch.Generator().manual_seed(3)
    loader = DataLoader(
        Pids(), batch_size=4, num_workers=1, persistent_workers=True, generator=seeds
    )
    passes: list[list[list[int]]] = []
    struck: dict[int, int] = {}
    over = False
    while not over:
        over = len(struck) == 2  # this pass begins with both of them
        passes.append([])
        iterator: Any = iter(loader)
        for batch in iterator:
            passes[-1].extend(batch.tolist())
            _strike(_workers(iterator)[1:], struck)
    return {
        "in_order": all([row[0] for row in rows] == list(range(1200)) for rows in passes),
        "last_makers": len({row[1] for row in passes[-1]}),
        "struck": sorted(signal.Signals(number).name for number in struck.values()),
        "still_stopped": [_state(pid) for pid, how in struck.items() if how == signal.SIGSTOP],
    }


def _strike(lent: list[Any], struck: dict[int, int]) -> None:
    """Widen lent workers as the node does; the first that holds batches is struck, then the other.

    On a busy machine neither may have made any: there is no core for it.
    """
    for worker in lent:
        if worker.pid not in struck:
            _widen(worker.pid)
            if len(worker.held) > 1 and len(struck) < 2:
                struck[worker.pid] = signal.SIGKILL if struck else signal.SIGSTOP
                os.kill(worker.pid, struck[worker.pid])


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


if __name__ == "__main__":
    each_in_a_child(globals(), sys.argv[1:])
