"""The course of a profile run: which window a training's batch belongs to, and how long it took.

A step is the time from one request for a batch to the next: the wait for the batch and all that is
done with it lie in one window. Windows change only there, after counts of steps that are the same
on every rank.
"""

from __future__ import annotations

import statistics
import weakref
from typing import Any, Callable, Iterator, NamedTuple

from . import estimate, plan
from .cache import BatchCache
from .loaders import LoaderPlaces
from .ranks import RankAgreement, SyncSwitch
from .tracer import StepTracer

_LEAST_ROUNDS = 2  # before measuring may stop for being precise
NONE = object()


class WindowLimits(NamedTuple):
    """Bounds of a profile run, as the command set them."""

    steps: int
    seconds: float
    seed: int


class Surroundings(NamedTuple):
    """The process around the driver: its clock, its ranks, and the way out of it."""

    clock: Callable[[], float]
    synchronise: Callable[[], None]  # waits for the accelerator
    agreement: Callable[[], RankAgreement]
    gradient_sync: Callable[[int], SyncSwitch]
    tracer: StepTracer
    bytes_of: Callable[[Any], int]  # of a batch's tensors
    changed: Callable[[], None]  # a window is over: write what is known
    leave: Callable[[], None]  # the run is over


class _Stretch:
    """Steps of one window, or of the warming up."""

    def __init__(self, kind: str, dropped: int, length: int, at_s: float) -> None:
        self.kind, self.dropped, self.length, self.at_s = kind, dropped, length, at_s
        self.done = 0
        self.steps: list[float] = []
        self.counted: list[int] = []  # numbers of those steps
        self.sent: list[dict[str, float]] = []  # seconds of their communication, where traced

    def is_edge(self) -> bool:
        """True if the step that ends now is the last one before those that count, or of all."""
        return self.done + 1 in (self.dropped, self.length)

    def add(self, seconds: float, counts: bool) -> None:
        """One step is done."""
        if counts and self.done >= self.dropped:
            self.steps.append(seconds)
            self.counted.append(self.done)
        self.done += 1

    def row(self) -> dict[str, Any]:
        """The window as it is written down."""
        row = {"kind": self.kind, "at_s": self.at_s, "dropped": self.dropped, "steps": self.steps}
        return {**row, "sent": self.sent} if self.kind == plan.TRACED else row


class WindowDriver:
    """Asked at each request for a batch; hands out a cached one where the window says so."""

    def __init__(self, limits: WindowLimits, around: Surroundings) -> None:
        self.limits, self.around = limits, around
        self.places = LoaderPlaces(lambda: BatchCache(around.bytes_of))
        self.steps = 0  # of the optimisers
        self.plan: plan.WindowPlan | None = None
        self.windows: list[_Stretch] = []
        self.ended: str | None = None  # the limit that ended it
        self.why_not: str | None = None  # no windows
        self.no_sync: str | None = None  # no windows without synchronisation
        self.workers = 0
        self.faults: list[str] = []
        self._order: Iterator[tuple[str, bool]] = iter(())
        self._stretch: _Stretch | None = None
        self._closes_round = False
        self._rounds = 0
        self._sync: SyncSwitch | None = None
        self._ranks = RankAgreement()
        self._began: float | None = None  # the step under way
        self._start = 0.0
        self._disturbed = False
        self._settling = 0
        self._latest: Callable[[], Any] = lambda: None  # the training's iterator
        self._drop = 0
        self._leaving = False

    # -- requests --------------------------------------------------------------------------

    def next(self, iterator: Any, original: Callable[[Any], Any]) -> Any:
        """The next batch of an iterator: its own, or a cached one."""
        if self._leaving:
            self.around.leave()  # the training took no notice
        place = self._safely(self._requested, iterator)
        cached = NONE if place is None else self._safely(self._cached, place)
        if cached is not NONE and cached is not None:
            return cached
        try:
            batch = original(iterator)
        except StopIteration:
            self._began = None if place is self.places.lead else self._began
            self._latest = lambda: None
            raise
        if place is not None and place.trains:
            self._safely(place.cache.keep, batch)
        return batch

    def _safely(self, act: Callable[..., Any], *args: Any) -> Any:
        """`act(*args)`; a fault of ours ends the run."""
        try:
            return act(*args)
        except Exception as error:
            self.faults.append(f"{type(error).__name__}: {error}"[:200])
            self.why_not = self.why_not or f"the profile itself failed: {self.faults[-1]}"
            self._end("fault")
            return None

    def _requested(self, iterator: Any) -> Any:
        place = self.places.requested(iterator, self.steps)
        if place is self.places.lead:
            self._boundary(iterator)
        elif not place.trains:
            self._disturbed = True  # a validation between two batches
        return place

    def _cached(self, place: Any) -> Any:
        cached = self._stretch is not None and self._stretch.kind not in plan.REAL_BATCHES
        return place.cache.hand() if cached and place.trains and len(place.cache) else NONE

    # -- steps -----------------------------------------------------------------------------

    def _boundary(self, iterator: Any) -> None:
        """A step of the training ends here, and the next one begins."""
        stretch = self._stretch
        if stretch is not None and stretch.is_edge():
            self.around.synchronise()
        now = self.around.clock()
        if stretch is None:
            self._warm_up(iterator, now)
        elif self._began is not None:
            stretch.add(now - self._began, self._counts(stretch))
            if stretch.done >= stretch.length:
                self._advance(stretch)
        if self._disturbed or self._latest() is not iterator:
            self._new_pass(iterator)
        self._disturbed = False
        if self._is_traced():
            self.around.tracer.mark()
        self._began = self.around.clock()

    def _is_traced(self) -> bool:
        return self._stretch is not None and self._stretch.kind == plan.TRACED

    def _counts(self, stretch: _Stretch) -> bool:
        """False for a step with a validation in it, and while a new pass fills its queue."""
        settling = self._settling > 0 and stretch.kind in plan.REAL_BATCHES
        self._settling -= settling
        return not (settling or self._disturbed)

    def _new_pass(self, iterator: Any) -> None:
        self._latest = weakref.ref(iterator)
        drop = self.plan.drop if self.plan else 1
        self._settling = max(1, min(drop, self.places.length(iterator) // 4))

    # -- windows ---------------------------------------------------------------------------

    def _warm_up(self, iterator: Any, now: float) -> None:
        self._start = now
        self.workers = int(iterator._num_workers)
        self._drop = plan.dropped_steps(
            self.workers, int(getattr(iterator, "_prefetch_factor", 0) or 0)
        )
        length = self._drop + plan.LEAST_KEPT
        self._stretch = _Stretch(plan.NORMAL, self._drop, length, 0.0)
        self.around.changed()

    def _advance(self, stretch: _Stretch) -> None:
        """A window is over: begin the next one, or end."""
        if self.plan is None:
            self._make_plan(stretch)
        else:
            if self._is_traced():
                stretch.sent = self.around.tracer.stop(stretch.counted)
            self.windows.append(stretch)
            if self._closes_round:
                self._end_round()
            self.around.changed()
        self._begin_window()

    def _make_plan(self, warm: _Stretch) -> None:
        self._ranks = self.around.agreement()
        self._sync = self.around.gradient_sync(self._ranks.world)
        self.no_sync = self._sync.why_not
        kinds = [plan.NORMAL, plan.CACHED]
        kinds += [] if self.no_sync else [plan.UNSYNCED, plan.BOTH]
        kinds += [plan.TRACED] if self._sync.is_sharded else []
        timed = not self._ranks.is_mute  # seconds differ from rank to rank
        own = {
            "kinds": kinds,
            "drop": self._drop,
            "elapsed_s": self._elapsed_s() if timed else 0.0,
            "step_s": statistics.median(warm.steps or [0.0]) if timed else 0.0,
        }
        told = self._ranks.agree(own, _together)
        self.plan = plan.make_plan(
            told["kinds"],
            told["drop"],
            told["step_s"],
            steps=self.limits.steps - told["drop"] - plan.LEAST_KEPT,
            seconds=self.limits.seconds - told["elapsed_s"],
            seed=self.limits.seed,
        )
        if self.plan is None:
            self.why_not = _too_long(told, self.limits)
            self._end("steps")
        else:
            self._order = self.plan.order()

    def _begin_window(self) -> None:
        found = next(self._order, None)
        if found is None or self.plan is None or self._sync is None:
            self._end("steps")
            return
        kind, self._closes_round = found
        self._sync.set(kind in plan.SYNCED)
        length = self.plan.length(kind)
        self._stretch = _Stretch(kind, self.plan.dropped(kind), length, self._elapsed_s())
        if self._is_traced():
            self.around.tracer.start()

    def _end_round(self) -> None:
        """All ranks go by rank 0's word."""
        self._rounds += 1
        own = None if self._ranks.rank or self._ranks.is_mute else self._own_word()
        word = self._ranks.agree(own, lambda words: words[0])
        if word:
            self._end(word)

    def _own_word(self) -> str | None:
        """Return why to stop after this round; None: go on."""
        elapsed_s = self._elapsed_s()
        if elapsed_s * (self._rounds + 1) / self._rounds > self.limits.seconds:
            return "seconds"
        by_kind = self.by_kind()
        if self._rounds < _LEAST_ROUNDS or not all(map(any, by_kind.values())):
            return None
        block = max(self.workers, estimate.LEAST_BLOCK)
        return "precise" if estimate.precise(by_kind, block=block, seed=self.limits.seed) else None

    def by_kind(self) -> dict[str, list[list[float]]]:
        """Steps of the windows so far, by their kind."""
        kinds = self.plan.kinds if self.plan else ()
        found = {kind: [w.steps for w in self.windows if w.kind == kind] for kind in kinds}
        return estimate.with_exposed(found, [w.sent for w in self.windows if w.sent])

    def _elapsed_s(self) -> float:
        return self.around.clock() - self._start

    def elapsed_s(self) -> float:
        """Seconds since the first step that was seen; 0 without one."""
        return self._elapsed_s() if self._stretch is not None else 0.0

    def _end(self, why: str) -> None:
        if self._sync is not None:
            self._sync.set(True)
        self.ended = why
        self._leaving = True
        self.around.changed()
        self._ranks.part()
        self.around.leave()


def _together(words: Any) -> dict[str, Any]:
    """Windows that every rank can have, for the slowest of them."""
    kinds = [kind for kind in words[0]["kinds"] if all(kind in word["kinds"] for word in words)]
    return {
        "kinds": kinds,
        "drop": max(word["drop"] for word in words),
        "step_s": max(word["step_s"] for word in words),
        "elapsed_s": max(word["elapsed_s"] for word in words),
    }


def _too_long(told: dict[str, Any], limits: WindowLimits) -> str:
    """Return why not even one round fits, and what would."""
    kinds = len(told["kinds"])
    least = plan.WindowPlan(tuple(told["kinds"]), told["drop"], plan.LEAST_KEPT, 1, 0).round_steps()
    return (
        f"{kinds} windows need {least} steps of {told['step_s']:.3g} s after warming up;"
        f" {limits.steps} steps and {limits.seconds:g} s were allowed (--steps, --seconds)"
    )
