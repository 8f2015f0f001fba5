"""Bounds on the questions of one user: so many a second, and so many at once."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from slurm_ext.core.errors import RefusedError

ASKS_PER_S, ASKS_AT_ONCE = 10.0, 20.0  # of one user
MOST_ASKERS = 1024  # users whose allowances are kept before the idle ones are forgotten
MOST_OPEN = 3  # questions of one user at the same time: fewer than are made from the history
TOO_MANY = "too many questions; ask again in a second"


class AskRate:
    """A token bucket for each user, whichever way the questions came; full ones are not kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asks: dict[int, tuple[float, float]] = {}  # uid → (allowance, when)
        self._open: Counter[int] = Counter()

    def may_ask(self, uid: int) -> bool:
        """True if the user has an allowance left; it is one less then."""
        with self._lock:
            return self._taken(uid, time.monotonic())

    @contextmanager
    def turn(self, uid: int) -> Iterator[None]:
        """One question of a user. Raises RefusedError where there are too many."""
        with self._lock:
            if self._open[uid] >= MOST_OPEN or not self._taken(uid, time.monotonic()):
                raise RefusedError(TOO_MANY)
            self._open[uid] += 1
        try:
            yield
        finally:
            with self._lock:
                self._open[uid] -= 1
                self._open += Counter()  # users without a question are forgotten

    def _taken(self, uid: int, now: float) -> bool:
        if len(self._asks) >= MOST_ASKERS:
            filled_s = now - ASKS_AT_ONCE / ASKS_PER_S
            self._asks = {uid: ask for uid, ask in self._asks.items() if ask[1] > filled_s}
        left, since = self._asks.get(uid, (ASKS_AT_ONCE, now))
        left = min(ASKS_AT_ONCE, left + (now - since) * ASKS_PER_S)
        if left < 1:
            return False
        self._asks[uid] = (left - 1, now)
        return True
