"""Cores by the affinity of every thread of a job: works everywhere, holds for what it forks too.

A thread whose mask is neither the job's nor one of ours was pinned by the user: it is left alone.
"""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from slurm_ext.control.allocator.cgroup.job_location import JobGoneError, JobLocation

MAX_THREADS = 20_000


class Affinity:
    """One job's threads; `kept` holds the mask that they had, and every one that we set."""

    def __init__(self, place: JobLocation, kept: dict[str, Any] | None = None) -> None:
        self._place = place
        self.kept: dict[str, Any] = kept or {}

    @property
    def cores(self) -> frozenset[int]:
        """Cores that the job had. Raises JobGoneError where no thread is left."""
        if not self.kept:
            masks: Counter[frozenset[int]] = Counter(mask for _, mask in self._threads())
            if not masks:
                raise JobGoneError("the job has no process")
            common = max(masks, key=lambda mask: (masks[mask], len(mask)))
            self.kept = {"before": sorted(common), "ours": []}
        return frozenset(self.kept["before"])

    def plan(self, cores: frozenset[int]) -> None:
        """Note the masks, before any is changed. Raises JobGoneError."""
        before, wanted = self.cores, sorted(cores)
        if wanted not in self.kept["ours"] and cores != before:
            self.kept["ours"].append(wanted)

    def give(self, cores: frozenset[int]) -> None:
        """Run on `cores` from now on; threads that are gone meanwhile do not matter."""
        masks = {self.cores, *(frozenset(mask) for mask in self.kept["ours"])}
        for _ in range(2):  # who was forked during the first pass may have the old mask
            for thread, mask in self._threads():
                if mask in masks and mask != cores:
                    with suppress(OSError):
                        os.sched_setaffinity(thread, cores)

    def restore(self) -> None:
        """The mask of before for every thread that has one of ours."""
        ours = {frozenset(mask) for mask in self.kept.get("ours", ())}
        if not ours:
            return
        before = frozenset(self.kept["before"])
        for _ in range(2):
            for thread, mask in self._threads():
                if mask in ours:
                    with suppress(OSError):
                        os.sched_setaffinity(thread, before)

    def _threads(self) -> Iterator[tuple[int, frozenset[int]]]:
        left = MAX_THREADS
        for pid in sorted(self._place.pids()):
            with suppress(OSError):
                for task in islice(Path(self._place.proc, str(pid), "task").iterdir(), left):
                    left -= 1
                    with suppress(OSError):
                        thread = int(task.name)
                        yield thread, frozenset(os.sched_getaffinity(thread))
