"""Runs several programs from one start of Python, each in a process of its own.

Such a process is forked after torch was imported, which takes longer than most programs do.
"""

# ruff: noqa: T201 - its output is its answer

import gc
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

MOVED_BY = ("workers", "lent")  # files of the run folder, by which a scenario asks for something


def import_all_of_torch() -> None:
    """What a first optimiser imports: the compiler, in seconds; less if nothing is collected."""
    gc.disable()
    torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    gc.enable()


def in_a_child(program: Callable[..., Any], *words: Any) -> int:
    """The process in which the program runs.

    What was imported is frozen: at its end the child would walk through it, and copy it thereby.
    """
    gc.freeze()
    pid = os.fork()
    if not pid:
        program(*words)
        sys.exit()
    return pid


def ended_well(*pids: int) -> None:
    """Wait for each; it must not fail."""
    faults = [os.waitpid(pid, 0)[1] for pid in pids]
    assert not any(faults), faults


def each_in_a_child(scenarios: Mapping[str, Callable[[], Any]], names: Iterable[str]) -> None:
    """Run them one after the other; print a line for each: its name, process id and answer."""

    def tell(name: str) -> None:
        print(json.dumps([name, os.getpid(), scenarios[name]()]), flush=True)

    for name in names:
        ended_well(in_a_child(tell, name))
        for file in MOVED_BY:
            Path(os.environ["DLQUEUE_RUN_DIR"], file).unlink(missing_ok=True)


def answers(stdout: str, run_dir: Path) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Each scenario's answer and the summary of its process, which failed at nothing."""
    told = {}
    for name, pid, said in map(json.loads, stdout.splitlines()):
        summary = json.loads((run_dir / f"summary-{pid}.json").read_text())
        assert summary["faults"] == [], name
        told[name] = (said, summary)
    assert not list(run_dir.glob("fetch-*")), "workers' totals are left behind"
    return told
