"""Turns of a process's passes: a validation between two batches of the training is no step of it.

A loader that lives through all epochs (a sampler that repeats itself) hands the first batch of the
next epoch after a whole validation. Loaders that take turns batch by batch train together: there
the time between two batches of one is its step, the other's batch included.

Threads that train side by side have turns of their own. Steps of a thread that asks for no batches
belong to the thread that asked last: it reads ahead for the other one.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Callable

from .compiled import UnseenSteps
from .steps import StepClock

READ_ELSEWHERE = "it is read by a thread of its own"
_MOST_BESIDE = 8
_MOST_THREADS = 32


class Turn:
    """Turns of the passes that one thread asks: which of them handed the latest batch."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._latest: Any = None
        self._asked = False  # and no step was made since
        self._again = False  # the latest pass was asked twice in a row
        self._stretches = 0  # passes that were, so far
        self._total = 0  # steps
        self._credited = 0
        self._models: set[int] = set()  # that the steps were of which are not credited yet
        self._elsewhere = False  # another thread made some of those
        self._stepped_at = 0.0  # when the latest was done
        self._beside: list[Any] = []  # passes that handed a batch for the same step as the latest

    @property
    def trains(self) -> bool:
        """True once steps were made with what its thread read."""
        return self._total > 0

    @property
    def latest(self) -> Any:
        """The pass that handed the latest batch."""
        return self._latest

    def idle(self) -> bool:
        """True if its thread does not read anything now."""
        return self._latest is None or bool(self._latest.over)

    def step(self, model: int | None, elsewhere: bool, now: float) -> None:
        """A step was made, of this model, with what was read here."""
        self._total += 1
        self._stepped_at = now
        if model is not None:
            self._models.add(model)
        self._elsewhere = self._elsewhere or elsewhere

    def to(self, current: Any, now: float) -> None:
        """`current` is asked for a batch: where a validation lay between, its step ended before."""
        if current is self._latest:
            self.credit()
            self._asked = True
            if not self._again:
                self._again = True
                self._stretches += 1
            return
        self.leave(now)
        self._latest, self._asked, self._again = current, True, False
        if current in self._beside or len(self._beside) > _MOST_BESIDE:
            self._beside.clear()
        left, current.left = current.left, None
        if left is not None and current.last:
            left_s, cpu_s, stretches, steps = left
            if self._stretches > stretches and self._total == steps:
                current.apart(now - left_s, time.process_time() - cpu_s)

    def leave(self, now: float) -> None:
        """Another loader is asked from here on."""
        latest, beside = self._latest, [*self._beside]
        if self.credit():  # it was the step of those, too: they are left here, not before it
            for one in beside:
                one.left = one.left and self._place(now)
        elif self._asked and not self._again:
            self._beside.append(latest)
        if latest is not None and latest.last and latest.left is None:
            latest.left = self._place(now)
        if latest is not None and not latest.steps:  # who counts batches never comes to its end
            latest.evaluates = latest.evaluates or self._turns.steps.evaluates()

    def validated(self, seconds: float, cpu_s: float, now: float) -> None:
        """A validation without a loader ended: it is left out of the latest batch's step."""
        latest = self._latest
        if latest is not None and not latest.over and 0 < latest.last <= now - seconds:
            latest.apart(seconds, cpu_s)

    def _place(self, now: float) -> tuple[float, float, int, int]:
        """Time and counts at which a pass is left, for when it is asked again."""
        return now, time.process_time(), self._stretches, self._total

    def credit(self) -> bool:
        """Steps are those of the pass that handed the latest batch, and of those zipped with it."""
        lately = self._total - self._credited
        if not lately:
            return False
        models, self._models = self._models, set()
        if self._beside:
            _note_twins([*self._beside, self._latest])
        for one in (self._latest, *self._beside):
            if one is not None:
                if self._turns.on_steps is not None:
                    self._turns.on_steps(one, models)
                if not (one.steps or one.over):
                    one.note_first(lately)
                one.stepped_at = self._stepped_at
                if one.over and one.steps:
                    one.meter.finish(one, lately)
                one.steps += lately
                one.shared_steps += lately if self._beside else 0
                one.elsewhere = one.elsewhere or self._elsewhere
        self._beside.clear()
        self._credited += lately
        self._elsewhere = self._asked = False
        return True


def _note_twins(passes: list[Any]) -> None:
    """Of passes over one loader that hand batches for the same steps, again, one counts: the first.

    The time between two of its batches is also that of the others.
    """
    first: dict[Any, Any] = {}
    for one in passes:
        if one is not None and one.shared_steps and not one.over:
            one.twin = first.setdefault(one.meter, one) is not one


class Turns:
    """Turns of all threads of this process."""

    def __init__(self, steps: StepClock) -> None:
        self.steps = steps
        # Called before a pass is credited with steps of these models.
        self.on_steps: Callable[[Any, set[int]], Any] | None = None
        # As long as no optimiser told of a step.
        self.unseen: UnseenSteps | None = UnseenSteps()
        self._of: dict[int, Turn] = {}  # by thread
        self._latest: Turn | None = None  # of the thread that asked last

    def to(self, current: Any, now: float) -> None:
        """`current` is asked for a batch by this thread."""
        if self.unseen is not None:
            self._count_unseen(now)
        self._latest = turn = self._here()
        turn.to(current, now)

    def turn(self, trains: bool, now: float) -> None:
        """A module of this thread's turns to training or to evaluation."""
        seconds, cpu_s = self.steps.turn(trains, now)
        own = self._of.get(threading.get_ident()) if seconds else None
        if own is not None:
            own.validated(seconds, cpu_s, now)

    def latest_here(self) -> Any:
        """The pass that handed this thread's latest batch; None: there is none."""
        return self._here().latest

    def leave(self, now: float) -> None:
        """This thread is about to ask another loader."""
        if self.unseen is not None:
            self._count_unseen(now)
        self._here().leave(now)

    def count(self, optimiser: Any, now: float) -> None:
        """One step was done, by this thread."""
        model = self.steps.count(optimiser, now)
        own, latest = self._of.get(threading.get_ident()), self._latest
        turn = latest if own is None or own.idle() else own
        if turn is not None:
            turn.step(model, turn is not own, now)

    def _count_unseen(self, now: float) -> None:
        """Count the steps made since the last batch by what torch.compile made of optimisers."""
        try:
            for optimiser in self.unseen.made() if self.unseen else ():
                self.count(optimiser, now)
        except Exception:  # optimisers of another kind
            self.unseen = None

    def of_one_thread(self) -> bool:
        """True if no two threads train side by side."""
        return sum(turn.trains for turn in list(self._of.values())) <= 1

    def credit(self) -> None:
        """All steps so far go to their passes."""
        for turn in list(self._of.values()):
            turn.credit()

    def _here(self) -> Turn:
        thread = threading.get_ident()
        turn = self._of.get(thread)
        if turn is None:
            if len(self._of) >= _MOST_THREADS:
                self._forget()
            turn = self._of[thread] = Turn(self)
        return turn

    def _forget(self) -> None:
        """Threads that are gone, or read nothing now."""
        for thread in [one for one, turn in list(self._of.items()) if turn.idle()]:
            self._of.pop(thread).credit()
