"""A fault: what it breaks, for how long, and what it needs."""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any

from contrib.bench.campaign.cluster import Cluster

Break = Callable[[Cluster], AbstractContextManager[None]]
"""Injects the fault when the context begins, and heals it when the context ends."""


@contextmanager
def nothing(_: Cluster) -> Iterator[None]:
    """Break nothing."""
    yield


def killed(daemon: str) -> Break:
    """A daemon is killed, and started again in the end."""

    @contextmanager
    def broken(cluster: Cluster) -> Iterator[None]:
        cluster.slurm.stop(daemon, signal.SIGKILL)
        yield
        cluster.slurm.start(daemon)

    return broken


class Hurts(StrEnum):
    """The way that a fault stands on: it gets the full count there, and few on the other."""

    SUBMISSIONS = "submissions"
    RECORDS = "records"
    BOTH = "both"


def nothing_missing() -> str:
    """Say what this machine lacks for the fault: nothing."""
    return ""


@contextmanager
def every(period_s: float, turn: Callable[[int], object]) -> Iterator[None]:
    """Call `turn(number)` again and again beside what runs."""
    ended = threading.Event()

    def work() -> None:
        number = 0
        while not ended.wait(period_s):
            turn(number)
            number += 1

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@dataclass(frozen=True, slots=True)
class Fault:
    """One row of the table."""

    name: str
    what: str
    broken: Break
    _: KW_ONLY
    prepared: Break = nothing  # around everything, before the first job
    hurts: Hurts = Hurts.BOTH
    no_slurm: bool = False  # Slurm itself takes no submissions meanwhile
    shells: int = 1  # from which each user submits under it: more where an sbatch waits for seconds
    needs: Mapping[str, Any] = field(default_factory=dict)  # fields of SandboxSpec
    settings: Mapping[str, Any] = field(default_factory=dict)  # keys of dlqueue.toml
    missing: Callable[[], str] = nothing_missing


on_submissions = partial(Fault, hurts=Hurts.SUBMISSIONS)
on_records = partial(Fault, hurts=Hurts.RECORDS)
