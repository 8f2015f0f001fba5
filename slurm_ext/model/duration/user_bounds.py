"""Bounds of run times: moved by each user's own jobs for that user, by fair shares for all.

A user whose jobs ended outside their bounds, on purpose or not, widens his own next bounds. The
common ones are moved by a job only while its user has at most his share of the newest ends.
"""

from collections import OrderedDict, deque

from slurm_ext.core.stats import POOL_USERS
from slurm_ext.model.duration.adaptive_bounds import AdaptiveBounds

NEWEST = 90  # ends by which a user's share is told
MOST_USERS = 4096


class UserBounds:
    """Shifts outwards of a model's bounds, in logs."""

    def __init__(self, common: AdaptiveBounds) -> None:
        self.common = common
        self._own: OrderedDict[str, AdaptiveBounds] = OrderedDict()
        self._newest: deque[str] = deque(maxlen=NEWEST)

    def shifts(self, user: str, level: int) -> tuple[float, float]:
        """The shifts of the low and the high bound of a user's next job."""
        own, common = self._own.get(user), self.common
        if own is None:
            return common.low[level], common.high[level]
        return common.low[level] + own.low[level], common.high[level] + own.high[level]

    def update(self, user: str, level: int, below: float, above: float) -> None:
        """Learn from an ended job of this user, by how far it fell outside (logs)."""
        self._newest.append(user)
        if self._newest.count(user) * POOL_USERS <= len(self._newest):
            self.common.update(level, below, above)
            return
        own = self._own.setdefault(user, AdaptiveBounds(step=self.common.step))
        self._own.move_to_end(user)
        if len(self._own) > MOST_USERS:
            self._own.popitem(last=False)
        own.update(level, below - self.common.low[level], above - self.common.high[level])
