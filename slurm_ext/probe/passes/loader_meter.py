"""One loader's numbers over all its passes, and how its workers were set."""

from __future__ import annotations

from typing import Any, Callable

from ..counters import marks
from ..stalls.phase_row import add, phase_row
from ..workers.load import Load
from .gathering import Gathering
from .one_pass import Pass
from .phase_sums import PhaseSums, place
from .starts import Starts
from .trust import Trust

_OF_THE_LOADER = (
    "rows_in_all",
    "share",
    "gathering",
    "first_batches",
    "starts",
    "worker_private",
    "load",
    "memory_due",
    "tuner",
    "pass_batches",
    "gated",
    "gate_open",
    "most_workers",
    "left_alone",
    "fallback",
    "kept",
    "_trust",
)
_LAST = 2  # batches that may be short
_APART = 0.02  # of the samples; fetches that go by untimed are counted like those beside them


class LoaderMeter:
    """One loader's numbers over all its passes, and how its workers were set."""

    def __init__(self, number: int, facts: dict[str, Any], run_dir: str) -> None:
        self.number = number
        self.owner: Callable[[], Any] = lambda: None  # the loader, while it lives
        self.facts = facts
        self.run_dir = run_dir
        self.rows_in_all: int | None = None  # samples of a full pass, where that is known
        self.share: tuple[int, int] | None = None  # of the ranks' data: of how many, and which
        self.first_batches: tuple[int, ...] = ()  # their marks
        self.gathering = Gathering()
        self.startup_s = 0.0  # of its own passes
        self.own_start_s = 0.0  # the probe's: it counts once a pass came to its end
        self.starts = Starts(lasting=facts["persistent"])
        self.worker_private = 0
        self.load = Load()  # the most that a pass's batches were
        self.memory_due = 0.0  # when the room for its workers is to be looked at again
        self.tuner: Any = None  # where the loader finds its own count of workers
        self.pass_batches: int | None = None  # of a full pass
        self.gated: int | None = None  # workers started for the directive
        self.gate_open: int | None = None
        self.most_workers: int | None = None  # as many as the gate can open
        self.left_alone: str | None = None
        self.fallback: str | None = None
        self.kept: str | None = None  # left alone for good: the trial said why
        self._trust: Trust | None = None
        self._passes: list[Pass] = []
        self._lasting: list[Pass] = []  # the latest pass of each iterator whose workers live on
        self._sums = PhaseSums()
        self.models: set[int] = set()  # that optimisers stepped with its batches

    def hand_over(self, current: Pass, other: LoaderMeter) -> None:
        """This pass is another training's: what is known of the loader goes with it."""
        for name in _OF_THE_LOADER:
            setattr(other, name, getattr(self, name))
        self._passes.remove(current)
        other._passes.append(current)
        current.meter = other
        current.gathered_s = 0.0
        self.startup_s -= self.starts.latest_s
        other.startup_s += self.starts.latest_s

    def samples(self, batches: int, fetched: tuple[float, ...]) -> int:
        """Samples in so many batches: exact where batches are whole, else by what was fetched.

        A loader that begins anew by itself delivers more than its dataset holds; one whose batch
        size the loop sets between two batches has no whole ones.
        """
        size, in_all = self.facts["batch_size"] or 1, self.rows_in_all
        whole = in_all is not None and (batches - 1) * size < in_all
        if whole and not _other_sizes(size, fetched):
            return int(min(batches * size, in_all or 0))
        return round(batches * fetched[0] / fetched[1]) if fetched[1] else int(batches * size)

    def unmarked(self) -> int:
        """Batches that are still to be marked."""
        return marks.FIRST - len(self.first_batches)

    def mark(self, batch: Any) -> None:
        """Mark one of the first batches, where its content can be read."""
        try:
            number = marks.mark(batch, self.share)
        except Exception:  # a batch of the user's own kind
            number = None
        if number is not None:
            self.first_batches = (*self.first_batches, number)

    def started(self, seconds: float, workers: int) -> None:
        """Starting so many workers took so long."""
        self.startup_s += seconds
        self.starts.add(seconds, workers)

    def trust(self) -> None:
        """This very loader's dataset goes well in workers: no trial while it stays as it is.

        A loop over a loader that nothing else holds goes on when that is gone.
        """
        owner = self.owner()
        self._trust = None if owner is None else Trust(owner)

    def trusts(self, loader: Any) -> bool:
        """True if `trust` was called for this loader, and nothing was changed since."""
        return self._trust is not None and self._trust.holds(loader)

    def begin(self, current: Pass) -> None:
        """A new pass; those whose iterator is gone, or is used again, have ended."""
        self._sums.settle()
        fresh = current.iterator()
        for old in list(self._passes):
            if old.iterator() in (None, fresh):
                self.end(old)
        self._passes.append(current)

    def end(self, current: Pass) -> None:
        """Adds a pass to its phase, once."""
        whole, current.over = current.over, True
        if current in self._passes:
            self._passes.remove(current)
            self.startup_s += self.own_start_s
            self.own_start_s = 0.0
            current.made.end()
            self.starts.ended(current.wait_s, current.step_s, current.fetched()[2], whole=whole)
            self.worker_private = max(self.worker_private, current.made.private_bytes())
            self._sums.close(current, self.starts.latest_s)
            self._keep(current)

    def _keep(self, current: Pass) -> None:
        """Leave the totals of workers that last until their iterator is gone; all others' go."""
        ended, fresh = [*self._lasting, current], current.iterator()
        self._lasting = []
        for each in ended:
            if each.iterator() is None or not self.facts["persistent"]:
                each.made.forget()
            elif each is current or each.iterator() is not fresh:
                self._lasting.append(each)

    def finish(self, current: Pass, late: int) -> None:
        """Add steps for which the pass's last batches waited at its end: loops read ahead."""
        seconds = current.unfinished_s(late) if current.ended_at else 0.0
        total = self._sums.total_of(current) if seconds else None
        if total and total["wall_s"]:
            workers = seconds * total["workers"] / total["wall_s"]
            add(total, {"wall_s": seconds, "step_s": seconds, "workers": workers})
            current.ended_at, current.late_s = 0.0, seconds

    def forget_workers(self) -> None:
        """At Python's end: no totals file stays."""
        for current in [*self._passes, *self._lasting]:
            current.made.forget()

    def row(self) -> dict[str, Any]:
        """The loader's part of the summary, passes under way included."""
        for current in self._passes:
            self.worker_private = max(self.worker_private, current.made.private_bytes())
        phases, aside_s = self._sums.with_those(self._passes)
        trains = any(stepped for _, _, stepped in phases)
        return {
            "id": self.number,
            **{key: self.facts[key] for key in ("dataset", "style", "batch_size", "length")},
            "model": min(self.models, default=None),
            "first_batches": list(self.first_batches),
            "user_num_workers": self.facts["user_num_workers"],
            "started_workers": self.facts["user_num_workers"] if self.gated is None else self.gated,
            "gate": self.gate_open,
            "most_workers": self.most_workers,
            "method": "own" if self.gated is None else "gated",
            "left_alone": self.left_alone,
            "fallback": self.fallback,
            "worker_rss_bytes": self.worker_private or None,
            "startup_s": self.startup_s - (aside_s if trains else 0.0),
            "first_startup_s": self.starts.first_s(),
            "tuned": self.tuner and self.tuner.row(self.facts["batch_size"] or 1),
            "phases": [
                phase_row(name, total) for (name, _, _), total in sorted(phases.items(), key=place)
            ],
        }


def _other_sizes(size: int, fetched: tuple[float, ...]) -> bool:
    """True if fetches were of other sizes: more differ than its last one, and a former pass's."""
    expected = size * fetched[1]
    return abs(fetched[0] - expected) > _LAST * size + _APART * expected
