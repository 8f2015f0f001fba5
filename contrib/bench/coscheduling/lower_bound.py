"""Lower bound of the makespan of any policy, given the measured speeds.

A linear programme over what may run at a time (a job alone, or a pair whose speeds both keep the
floor): seconds of each, so that every job's work gets done. Jobs may be separated and joined at
will, and everything is known from the start, so no schedule of a real node ends earlier.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from scipy.optimize import linprog

Speeds = Mapping[tuple[str, str], float]
"""Speed of a kind beside another, as a share of its speed alone."""


def least_s(kinds: Sequence[str], speed: Speeds, *, floor: float, work_s: float) -> float:
    """Seconds for one job of each kind, `work_s` of work alone each, two slots."""
    together = [(one,) for one in kinds] + _allowed(kinds, speed, floor)
    done = np.array([[_rate(kind, those, speed) for those in together] for kind in kinds])
    solution = linprog(np.ones(len(together)), A_ub=-done, b_ub=np.full(len(kinds), -work_s))
    return float(solution.fun)


def _allowed(kinds: Sequence[str], speed: Speeds, floor: float) -> list[tuple[str, ...]]:
    return [(a, b) for a, b in combinations(kinds, 2) if min(speed[a, b], speed[b, a]) >= floor]


def _rate(kind: str, those: Sequence[str], speed: Speeds) -> float:
    """Of a kind's work that is done in a second of theirs."""
    if kind not in those:
        return 0.0
    others = [one for one in those if one != kind]
    return speed[kind, others[0]] if others else 1.0
