"""Ageing: the lead of a small job over a larger one, which ends with waiting. Pure.

The key of a size becomes a time: since when the job waits, plus a handicap that grows with the
logarithm of the size, up to the lead. The lead follows the longest wait that the cluster has seen
in any of its queues. Where jobs wait much less, the order is that of sizes; where they wait as
long, small newcomers stay behind those that waited. So the longest waits grow little, and a site
needs no number of its own. (Boost policies have this shape: Yu and Scully, 2024.)

The size is the predicted one, not the expected one of its interval: see
contrib/bench/queue/ageing. Nobody is preempted, so Gittins' index of a waiting job is one over the
expected run time, and intervals of nearly equal width change no order.
"""

from dataclasses import dataclass
from math import floor, log

import numpy as np
from numpy.typing import NDArray

LEADS = 1.5  # times the longest wait (contrib/bench/queue/ageing)
LEAST_LEAD_S, MOST_LEAD_S = 3600.0, 30 * 86400.0
HALVES_S = 30 * 86400.0  # in which a longest wait that nobody reaches again counts half
AHEAD_S = 60.0  # a record so far in the future was made by a clock that was wrong
STEP = 1.1  # between two leads: each changes the order of all that wait
LEAD_SIZES = (60.0, 1e6)  # GPU-seconds: no handicap up to the first, all of it from the second


@dataclass(frozen=True, slots=True)
class LongestWait:
    """The longest wait of a cluster in s, and when it was reached."""

    seconds: float = 0.0
    at_s: float = 0.0

    def seen(self, waited_s: float, now_s: float) -> "LongestWait":
        """Return the record after a look at the job that waits longest now."""
        ahead = self.at_s > now_s + AHEAD_S
        return LongestWait(waited_s, now_s) if ahead or waited_s > self._left_s(now_s) else self

    def lead_s(self, now_s: float) -> float:
        """Lead of the smallest over the largest jobs in s, in steps."""
        wanted = min(max(LEADS * self._left_s(now_s), LEAST_LEAD_S), MOST_LEAD_S)
        steps = floor(log(wanted / LEAST_LEAD_S) / log(STEP) + 1e-9)
        return float(LEAST_LEAD_S * STEP**steps)

    def _left_s(self, now_s: float) -> float:
        if self.at_s > now_s + AHEAD_S:
            return 0.0
        return float(self.seconds * 0.5 ** (max(0.0, now_s - self.at_s) / HALVES_S))


def aged(
    submit_s: NDArray[np.float64], sizes: NDArray[np.float64], lead_s: float
) -> NDArray[np.float64]:
    """Return sizes (GPU-seconds) as times in s; a job submitted `lead_s` later never overtakes.

    Of two jobs the lead goes by the ratio of their sizes, however large both are: estimates are
    wrong by factors, and so are sizes that matter.
    """
    least, most = LEAD_SIZES
    part = np.log(np.maximum(sizes, least) / least) / np.log(most / least)
    times: NDArray[np.float64] = submit_s + lead_s * np.minimum(part, 1.0)
    return times
