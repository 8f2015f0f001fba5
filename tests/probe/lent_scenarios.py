"""Trainings that are lent workers; run under the probe by test_probe_lent, which plays the node.

Usage: lent_scenarios.py NAME. Prints one JSON object.
"""

# ruff: noqa: T201 - written as jobs are, each named by what it does

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

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
        info = get_worker_info()
        assert info is not None
        return torch.tensor([index, info.id, os.sched_getscheduler(0)])


def _workers(iterator: Any) -> list[Any]:
    return list(iterator._workers)


def _widen(pid: int) -> None:
    os.sched_setaffinity(pid, {OWN, LENT})


def _taken_back(pid: int) -> None:
    (RUN_DIR / "lent").unlink()
    os.sched_setaffinity(pid, {OWN})
    os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))


def lent_and_taken_back() -> Any:
    """A worker is lent after 20 batches; its cores come after 60, and go after 150."""
    os.sched_setaffinity(0, {OWN})
    loader = DataLoader(Makers(1200), batch_size=4, num_workers=1)
    iterator: Any = iter(loader)
    items: list[list[list[int]]] = []
    lent = 0
    for count, batch in enumerate(iterator):
        items.append(batch.tolist())
        if count == 20:
            (RUN_DIR / "lent").write_text(f"1 {LENT}\n")
        if count == 60:
            lent = _workers(iterator)[-1].pid
            _widen(lent)
        if count == 150:
            _taken_back(lent)
    makers = [sorted({row[1] for batch in part for row in batch}) for part in _parts(items)]
    policies = {row[2] for batch in items for row in batch if row[1] == 1}
    return {
        "in_order": [row[0] for batch in items for row in batch] == list(range(1200)),
        "makers": makers,
        "idle_policy": policies <= {os.SCHED_IDLE, os.SCHED_OTHER} and os.SCHED_IDLE in policies,
        "workers": len(makers[1]),
    }


def _parts(items: list[Any]) -> tuple[list[Any], ...]:
    """Before it has cores, while it has, and some time after they were taken back."""
    return items[:60], items[100:150], items[220:]


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


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
