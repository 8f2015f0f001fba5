"""Steps of the job's optimisers, by torch's own hook: a clock that needs no DataLoader."""

from __future__ import annotations

import functools
import sys
import time
from typing import Any, Callable

from ..stalls.gradient_sync import SyncTimes
from . import graphs, step_hooks
from .backward import Passes
from .data_ranks import DataRanks
from .models import Models
from .stretches import OptimiserSteps, Stretch, busiest, in_turn

_MOST_OPTIMISERS = 16
_FEWEST_BETWEEN = 16  # steps between two validations; what comes oftener is a part of the step
_FED = 0.5  # batches to a step, from which on loaders set the pace
_NONE = (0.0, 0.0)
_PLAYING = ("gymnasium", "gym")  # their programs gather what they train on in evaluation mode


class StepClock:
    """Steps of each optimiser; one that is gone is counted on as long as there is room."""

    def __init__(self) -> None:
        self.total = 0
        self.passes = Passes()  # as long as no optimiser steps
        self.due = 0.0  # when the summary is to be looked at; the clock is time.perf_counter
        self.sync = SyncTimes()
        self.data_ranks = DataRanks()
        self._numbers = Models()
        self._of: dict[int, OptimiserSteps] = {}  # by id
        # Of those that made room: the busiest, and those that came one after the other.
        self._gone: tuple[Stretch | None, Stretch | None] = None, None
        self._aside_s = 0.0  # validations so far
        self._aside_at = 0  # steps when the latest ended
        # Since when, at which steps, and with how much CPU of the process.
        self._evaluating: tuple[float, int, float] | None = None
        self.evaluated_at = 0.0  # when a module was put into that mode

    def count(self, optimiser: Any, now: float) -> int | None:
        """One step was done; return the number of its model, None where there are too many."""
        self.total += 1
        entry = self._of.get(id(optimiser))
        if entry is None or entry.of() is not optimiser:
            entry = self._new(optimiser, now)
        else:
            entry.steps += 1
            entry.latest = now
            if entry.aside_s != self._aside_s:
                entry.first += self._aside_s - entry.aside_s
                entry.aside_s = self._aside_s
        if self.total >= self.sync.due:
            self.sync.look(self.total, now)
        return None if entry is None else entry.model

    def begin(self, owner: Any, now: float) -> None:
        """An epoch begins: what lay between its owner's latest step and this was no training."""
        entry, self._evaluating = self._of.get(id(owner)), None
        if entry is not None and entry.of() is owner:
            entry.first += now - entry.latest
            entry.latest, entry.aside_s = now, self._aside_s
        elif (entry := self._new(owner, now)) is not None:
            entry.steps = 0

    def turn(self, trains: bool, now: float) -> tuple[float, float]:
        """A module turns to training or to evaluation: a validation lies between two steps.

        Return the seconds of one that ended by this, and those of the CPU.
        """
        if not trains:
            self.evaluated_at = now
            if self._evaluating is None or self._evaluating[1] != self._made:
                self._evaluating = now, self._made, time.process_time()
            return _NONE
        since, self._evaluating = self._evaluating, None
        if since is None or since[1] != self._made or any(map(sys.modules.get, _PLAYING)):
            return _NONE
        seldom, self._aside_at = self._made - self._aside_at >= _FEWEST_BETWEEN, self._made
        took = (now - since[0], time.process_time() - since[2]) if seldom else _NONE
        self._aside_s += took[0]
        self.passes.aside(took[0])
        return took

    @property
    def aside_s(self) -> float:
        """Seconds of validations so far."""
        return self._aside_s

    def idle(self) -> bool:
        """True before the first step, and while a module is in its mode for evaluation.

        Steps that torch.compile made are not seen, so that nobody knows which one is the first.
        """
        compiler = sys.modules.get("torch._dynamo.utils")
        unseen = compiler is not None and compiler.counters["frames"]["total"] > 0
        return self._evaluating is not None or not (self.total or unseen)

    def evaluates(self) -> bool:
        """True while a module is in its mode for evaluation, after steps."""
        return self.total > 0 and self._evaluating is not None

    @property
    def _made(self) -> int:
        return self.total or self.passes.count

    def _new(self, optimiser: Any, now: float) -> OptimiserSteps | None:
        """Count an optimiser from its first step on; None: there are too many."""
        self._make_room(id(optimiser))
        if len(self._of) >= _MOST_OPTIMISERS:
            return None
        entry = OptimiserSteps(optimiser, self._model_of(optimiser), now, self._aside_s)
        self._of[id(optimiser)] = entry
        return entry

    def _model_of(self, optimiser: Any) -> int:
        try:
            return self._numbers.number(optimiser)
        except Exception:  # an optimiser of another kind: its steps count all the same
            return 0

    def _make_room(self, key: int) -> None:
        """Forget the former owner of this id, and where there is no room all that are gone."""
        full = len(self._of) >= _MOST_OPTIMISERS
        for other in [k for k, one in self._of.items() if k == key or (full and not one.of())]:
            stretch, (former, chain) = self._of.pop(other).stretch(), self._gone
            self._gone = busiest(former, stretch), in_turn(chain, stretch)

    def row(self, batches: int = 0) -> dict[str, float] | None:
        """Steps of the busiest optimiser, and the time from its first to its latest; None: none.

        Where loaders did not hand as many `batches` as feed them, those of optimisers that came
        before it or after it are added: layers that train one after the other, trials.
        """
        stretches = [entry.stretch() for entry in list(self._of.values())]
        whole = in_turn(self._gone[1], *stretches)
        if whole is None or batches >= _FED * whole.steps:
            whole = busiest(self._gone[0], *stretches)
        if whole is None:
            return None
        return {"steps": whole.steps, "wall_s": whole.wall_s}


def hook(module: Any, count: Callable[[Any, float], None]) -> None:
    """Call `count(optimiser, now)` after each step of every optimiser from now on.

    `module` is torch.optim.optimizer. What torch.compile looks at stays as if nobody listened, and
    is not counted; a torch before 2.1 cannot tell, and nothing is counted there.
    """
    torch = sys.modules["torch"]
    if not _tells_compiling(torch):
        return
    clock = time.perf_counter

    def after_step(optimiser: Any, *_: Any) -> None:
        if torch.compiler.is_compiling():
            return
        try:
            if not graphs.is_recorded(optimiser, count):
                count(optimiser, clock())
        except Exception:  # noqa: S110 - the job's own step is done
            pass

    step_hooks.add(module, after_step)


def follow_turns(kind: Any, turn: Callable[[bool, float], None]) -> None:
    """Call `turn(trains, now)` when a module of torch's, of this class, changes its mode.

    What torch.compile looks at stays as if nobody listened.
    """
    original = kind.train
    torch = sys.modules["torch"]
    known = _tells_compiling(torch)

    @functools.wraps(original)
    def train(self: Any, mode: bool = True) -> Any:
        if known and torch.compiler.is_compiling():
            return original(self, mode)
        result = original(self, mode)
        try:  # noqa: SIM105 - as above
            turn(mode, time.perf_counter())
        except Exception:  # noqa: S110 - as above
            pass
        return result

    kind.train = train


def _tells_compiling(torch: Any) -> bool:
    return tuple(map(int, str(torch.__version__).split(".")[:2])) >= (2, 1)
