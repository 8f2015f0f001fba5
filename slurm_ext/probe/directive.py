"""The submission's request to this process, read once from the environment."""

from __future__ import annotations

import os
from typing import Mapping

from .workers.room import MAX_WORKERS


class Directive:
    """The environment's words: where to write, how many workers work and start (None: the user's).

    `num_threads`: torch's, as many as it would have as its user wrote the job; more CPUs than that
    are the workers'. `max_workers` is the headroom of the node's controller: so many start, no more
    work at first. `borrows`: the node's lender may ask for workers more (workers/lent.py). `tunes`:
    each loader finds its own count while it runs, from the first one on.
    """

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        self.run_dir = env.get("DLQUEUE_RUN_DIR", "")
        self.num_workers = _count(env.get("DLQUEUE_NUM_WORKERS", ""))
        self.num_threads = _count(env.get("DLQUEUE_NUM_THREADS", ""))
        self.max_workers = _count(env.get("DLQUEUE_MAX_WORKERS", ""))
        self.borrows = env.get("DLQUEUE_LENT") == "1"
        self.decision = env.get("DLQUEUE_DECISION") or None
        self.tunes = env.get("DLQUEUE_AUTOTUNE") == "1"
        self.seeds_may_change = env.get("DLQUEUE_SEEDED") == "allow"

    @property
    def gates(self) -> bool:
        """True if any loader is to be set or may be asked to change."""
        return self.num_workers is not None or self.is_controlled or self.tunes

    @property
    def is_controlled(self) -> bool:
        """True if the node's loop watches the summaries, and may ask for workers or lend some."""
        return self.max_workers is not None or self.borrows

    @property
    def starts_ahead(self) -> bool:
        """True if workers start before they are asked for."""
        return self.max_workers is not None or not (self.tunes or self.borrows)

    @property
    def lent_path(self) -> str:
        """The file that says how many workers more are lent, and where they may run."""
        return os.path.join(self.run_dir, "lent")

    @property
    def gate_path(self) -> str:
        """The file that says how many workers may work."""
        return os.path.join(self.run_dir, "workers")


def _count(text: str) -> int | None:
    """A worker count; None for whatever is not one."""
    if not (text.isdecimal() and len(text) <= 4):
        return None
    return int(text) if 1 <= int(text) <= MAX_WORKERS else None
