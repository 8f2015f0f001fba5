"""One loader's closed loop: measures worker counts in turn and asks for what the search wants.

The search itself is autotune.py. Here its measurements are taken from the passes, in blocks of
whole rounds over the workers. While another hand moves the workers (the gate file, lent workers,
memory, another loader's search) nothing is measured: lent ones work while the job's own cores are
busy, so that its own count waits with the best one known. Once it is settled, the loop looks at one
block a second, and searches again when the rate or the share of waiting moved for good.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Callable

from ..passes.one_pass import NEVER
from ..stalls.fetch_times import FetchTimes
from . import autotune
from .autotune import Block, Rate
from .mark import Mark, lent_of

if TYPE_CHECKING:
    from .knob import Knob

_BLOCK_S, _WATCH_S = 0.2, 1.0
_WARM_UP = 2  # the first batches of a training are not like the others
_SHORT_S = 2.0  # passes that are shorter are measured whole, with the starting of their workers
_PATIENCE_S = 3.0  # for a gate that does not open so far
_WATCHED = 5  # blocks, of which the middle one counts
_WAIT_MOVED, _RATE_MOVED = 0.10, 1.3
_LEAST_REST_S, _MOST_REST_S = 10.0, 640.0
_SEARCH_S, _SEARCH_BATCHES = 20.0, 200  # a search that is over both stays with its best
_MOST_MEASURED = autotune.MOST_TRIES + 3
_NOTHING, _NO_BLOCK = (0.0,) * 7, Block(0, 0.0, 0.0)


class Tuner:
    """State of one loader's search, over all its passes.

    `own` is the user's count of workers, `start` where the search begins, `cores` are those that
    its workers share with the training.
    """

    def __init__(
        self, own: int, start: int, cores: float, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.own, self.count, self.cores, self.clock = own, start, cores, clock
        self.tried: autotune.Tried = {}
        self.settled = False
        self.settled_after: tuple[float, int] | None = None  # seconds, batches; of the first search
        self.start_each_s: Callable[[], float] = lambda: 0.0  # of a worker, where passes start them
        self._most = 1 << 16  # what could be had when more were asked for
        self._measured = 0  # counts, those that were measured again included
        self._search_s, self._search_batches, self._search_from = 0.0, 0, start
        self._rest_s, self._next_search = _LEAST_REST_S, 0.0
        self._blocks: list[Block] = []
        self._watched: list[Block] = []
        self._mark: Mark | None = None
        self._fetched: tuple[float, ...] = _NOTHING
        self._times = FetchTimes()
        self._part = _NO_BLOCK  # of several very short passes
        self._until = 0  # batches that are let go by after a change
        self._asked_at = 0.0
        self._short = False  # passes are
        self._pass: Any = None

    def row(self, batch_size: float) -> dict[str, Any]:
        """The search so far, for the summary; rates are steady ones, in samples/s."""
        seconds, batches = self.settled_after or (None, None)
        return {
            "workers": self.count if self.settled else None,
            "settled_s": seconds,
            "settled_batches": batches,
            "rates": [
                {
                    "workers": count,
                    "samples_per_s": one.batches_per_s * batch_size,
                    "wait": one.wait,
                }
                for count, one in sorted(self.tried.items())
            ],
        }

    # -- passes ----------------------------------------------------------------------------

    def begin(self, current: Any, knob: Knob) -> None:
        """A pass begins; its gate is new, or kept with persistent workers."""
        if self._pass is not None:
            self.end(self._pass, knob)  # the training left it before its end
        self._pass, self._fetched, self._times = current, _NOTHING, FetchTimes()
        knob.ask(current, self.count)
        self._restart(current, self.count + 1 if self.count else _WARM_UP, keep=True)
        if self._short:
            self._mark_now(current, current.meter.starts.latest_s)

    def end(self, current: Any, knob: Knob) -> None:
        """A pass came to its end: where passes are short, it is a block."""
        current.tune_at, self._pass = NEVER, None
        mark, self._mark = self._mark, None
        short = current.batches > 0 and current.wait_s + current.step_s < _SHORT_S
        if short != self._short:
            self._short, self._blocks, self._watched, self._part = short, [], [], _NO_BLOCK
        elif short and mark is not None and not mark.disturbed(current) and knob.turn(self):
            self._part = self._part.plus(mark.block(current))
            if self._part.seconds >= _BLOCK_S:
                block, self._part = self._part, _NO_BLOCK
                self._take(block, current, knob)
        knob.release(self)

    # -- batches ---------------------------------------------------------------------------

    def tick(self, current: Any, knob: Knob, now: float) -> None:
        """Called after batch `current.tune_at`: a block, or the wait before one, is over."""
        open_now = current.workers_now()
        if knob.ruled(current):
            knob.follow(current)
            self._restart(current, self._rounds(current))
        elif lent_of(current):
            self._stay_with_best(current, knob)
        elif not knob.turn(self):
            self._restart(current, self._rounds(current))
        elif open_now != self.count:
            self._not_as_asked(current, knob, open_now, now)
        elif self._mark is None and current.batches < self._until:
            current.tune_at = self._until
        elif self._mark is None:
            self._mark_now(current)
        elif self._mark.disturbed(current):
            self._restart(current, self.count + 1)
        else:
            self._take(self._mark.block(current), current, knob)

    def _mark_now(self, current: Any, before_s: float = 0.0) -> None:
        """A block begins, and `before_s` seconds of starting workers belong to it."""
        if not self._blocks:
            self._fetched, self._times = current.fetched(), current.fetch_times()
        self._mark = Mark(current, before_s)
        if not self._short:
            current.tune_at = current.batches + self._rounds(current)

    def _rounds(self, current: Any) -> int:
        """Batches of the next block: whole rounds over the workers, for some tenths of a second."""
        each, wanted_s = max(1, self.count), _WATCH_S if self.settled else _BLOCK_S
        seconds: float = (current.wait_s + current.step_s) / max(1, current.batches)
        if self._blocks:
            seconds = self._blocks[-1].seconds / self._blocks[-1].batches
        return each * max(1, round(wanted_s / max(seconds, 1e-6) / each))

    def _stay_with_best(self, current: Any, knob: Knob) -> None:
        """Lent workers are at work, so that no rate is a count's: a trial of one is broken off."""
        count = autotune.best_of(self.tried) if self.tried else self.count
        if count != self.count:
            self._move(current, knob, count)
        else:
            self._restart(current, self._rounds(current))

    def _not_as_asked(self, current: Any, knob: Knob, open_now: int, now: float) -> None:
        """Memory or the system holds the gate: after a while what is open is what can be had."""
        self._mark = None
        knob.ask(current, self.count)  # such as workers that were slow to start
        current.tune_at = current.batches + max(1, self.count)
        if now - self._asked_at > _PATIENCE_S and open_now > 0:
            self._most = open_now
            self._move(current, knob, open_now)

    def _restart(self, current: Any, skip: int, keep: bool = False) -> None:
        self._mark, self._watched = None, []
        self._blocks = self._blocks if keep else []
        self._asked_at = self.clock()
        self._until = current.tune_at = current.batches + skip
        if self._short:
            current.tune_at = NEVER

    # -- decisions -------------------------------------------------------------------------

    def _take(self, block: Block, current: Any, knob: Knob) -> None:
        """One more block of the present count."""
        count = self.count
        if block.seconds > 0 and self.settled:
            self._watch(block, current)
        elif block.seconds > 0:
            self._blocks.append(block)
            self._search_s += block.seconds
            self._search_batches += block.batches
            self._decide(current, knob)
        if self._mark is not None and count == self.count:
            self._mark_now(current)

    def _decide(self, current: Any, knob: Knob) -> None:
        others = [one.batches_per_s for count, one in self.tried.items() if count != self.count]
        if not autotune.enough(self._blocks, max(others, default=None)):
            return
        self.tried[self.count] = self._rate(current)
        self._measured += 1
        late = self._search_s > _SEARCH_S and self._search_batches > _SEARCH_BATCHES
        if late or self._measured >= _MOST_MEASURED:
            count = autotune.best_of(self.tried)
        else:
            most = max(min(knob.room(current), self._most), self.count)
            count = autotune.next_count(self.tried, most, self.cores)
        last = late or self._measured >= _MOST_MEASURED or count == self.count
        if count != self.count:
            self._move(current, knob, count)
        if last:
            self._settle(knob)

    def _rate(self, current: Any) -> Rate:
        """The present count's rate, with the cost of its batches; costs net of waits for a core."""
        lately = [now - old for now, old in zip(current.fetched(), self._fetched)]
        batches, wall_s, cpu_s, queued_s = lately[1], lately[2], lately[3], lately[6]
        queued_s = queued_s if 0 <= queued_s < wall_s else 0.0  # NaN where the kernel is silent
        fetch_s, cpu_s = (
            ((wall_s - queued_s) / batches, cpu_s / batches) if batches > 0 else (0.0, 0.0)
        )
        start_s = 0.0
        if current.meter.pass_batches and self.count and not self._short:
            start_s = (self.start_each_s() * self.count + fetch_s) / current.meter.pass_batches
        made_s = wall_s / batches / self.count if batches > 0 and self.count else 0.0
        found = autotune.rate(self._blocks, fetch_s, cpu_s, start_s, made_s)
        return found._replace(idle=batches > 0 and self._idle(current, wall_s / batches))

    def _idle(self, current: Any, mean_s: float) -> bool:
        slowest_s = current.fetch_times().since(self._times).percentile_s(1.0)
        args = mean_s, slowest_s or mean_s, self.count, current.in_flight()
        return autotune.idle(self._blocks, *args)

    def _move(self, current: Any, knob: Knob, count: int) -> None:
        """Another count from here on; what was asked for before is let go by, and a round."""
        before, self.count = current.in_flight(), count
        knob.ask(current, count)
        self._restart(current, before + count + 1)

    def _settle(self, knob: Knob) -> None:
        self.settled = True
        if self.settled_after is None:
            self.settled_after = self._search_s, self._search_batches
        moved = self.count != self._search_from
        self._rest_s = _LEAST_REST_S if moved else min(2 * self._rest_s, _MOST_REST_S)
        self._next_search = self.clock() + self._rest_s
        self._blocks = []
        knob.release(self)

    def _watch(self, block: Block, current: Any) -> None:
        """Search again once the middle one of some blocks is no longer what was settled on."""
        self._watched = [*self._watched[1 - _WATCHED :], block]
        if len(self._watched) < _WATCHED or self.clock() < self._next_search:
            return
        reference = self.tried[self.count]
        middle = autotune.rate(self._watched, 0.0, 0.0, 0.0)
        ratio = middle.batches_per_s / reference.batches_per_s
        moved = not 1 / _RATE_MOVED < ratio < _RATE_MOVED
        if moved or abs(middle.wait - reference.wait) > _WAIT_MOVED:
            self._wake(current)

    def _wake(self, current: Any) -> None:
        """Forgets what the former phase gave."""
        self.tried, self.settled, self._most, self._measured = {}, False, 1 << 16, 0
        self._search_s, self._search_batches, self._search_from = 0.0, 0, self.count
        self._restart(current, 1)
