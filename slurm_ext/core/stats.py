"""Statistics that several rooms conclude with: ratios, shares, conformal ranks, pools of users.

Pure, from counts and sums, by the standard library alone.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, exp, sqrt

LEVEL = 0.95  # of the intervals of a ratio and a share
NORMAL_90 = 1.645  # standard deviations to each end of a normal's 90 % interval
FEWEST = 8  # of each group: below, a difference is not told
# Users in a pool, at least: one has a third of it at most, so that the other two outweigh his
# claims, and whoever is told of the pool's numbers cannot tell whose they are.
POOL_USERS = 3


def median(values: Iterable[float]) -> float:
    """The middle value, or the mean of the two in the middle; of none an IndexError.

    As statistics.median has it, whose import is 5 ms of each command and each run's end.
    """
    ordered = sorted(values)
    half, odd = divmod(len(ordered), 2)
    return ordered[half] if odd else (ordered[half - 1] + ordered[half]) / 2


def median_low(values: Iterable[float]) -> float:
    """The middle value, or the lower of the two in the middle."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2]


def normal_reach(level: float) -> float:
    """Standard deviations to each end of a normal's interval of this level."""
    from statistics import NormalDist  # 5 ms, which `predict` does not wait for

    return NormalDist().inv_cdf((1 + level) / 2)


def conformal_rank(count: int, level: float = 0.9) -> int:
    """Rank, from 1, of the miss among `count` that bounds the next one with odds of `level`.

    Split conformal prediction: ceil((n + 1) * level), the largest where that is beyond n (Vovk,
    Gammerman and Shafer, 2005).
    """
    return min(count, ceil((count + 1) * level))


def fair_limit(counts: Iterable[int], users: int = POOL_USERS) -> int:
    """Most rows of one user that count, so that nobody has more than one in `users` of a pool.

    `counts`: rows of each user. 0 where fewer than `users` have any: their rows are no pool.
    """
    sizes = list(counts)
    low, high = 0, max(sizes, default=0)
    while low < high:
        middle = (low + high + 1) // 2
        if middle * users <= sum(min(count, middle) for count in sizes):
            low = middle
        else:
            high = middle - 1
    return low


def fair_rows(owners: Sequence[Hashable], most: int) -> list[int]:
    """Places of at most `most` rows, the first ones, among which nobody has more than his share."""
    taken, left = list[int](), Counter[Hashable]()
    for place, owner in enumerate(owners):
        if left[owner] < most // POOL_USERS and len(taken) < most:
            taken.append(place)
            left[owner] += 1
    limit, kept = fair_limit(left.values()), Counter[Hashable]()
    places = []
    for place in taken:
        kept[owners[place]] += 1
        places += [place] if kept[owners[place]] <= limit else []
    return places


def fair_newest(owners: Sequence[Hashable], *, least: int = 0) -> list[int]:
    """Places of rows (oldest first) of which no user has more than a share, the newest of each.

    `least`: so many of one user are kept anyway. With fewer than POOL_USERS they count alike.
    """
    left = Counter(owners)
    limit = max(least, fair_limit(left.values(), min(POOL_USERS, len(left))))
    places = []
    for place, owner in enumerate(owners):
        places += [place] if left[owner] <= limit else []
        left[owner] -= 1
    return places


def fair_weights(owners: Sequence[Hashable]) -> list[float]:
    """Weight of each row, at most 1: no user has more than a share of 1 / POOL_USERS.

    With fewer users they count alike.
    """
    counts = Counter(owners)
    most = fair_limit(counts.values(), min(POOL_USERS, len(counts)))
    return [min(1.0, most / counts[owner]) for owner in owners]


@dataclass(frozen=True, slots=True)
class LogGroup:
    """Logarithms of one group: how many, their sum and the sum of their squares.

    Of weighted ones `n` is how many equal ones would tell as much (`weighed`).
    """

    n: float
    total: float
    squares: float

    @property
    def mean(self) -> float:
        """Mean of the logarithms; 0 of none."""
        return self.total / self.n if self.n else 0.0

    @property
    def variance(self) -> float:
        """Unbiased variance; 0 of fewer than two."""
        return max(0.0, self.squares - self.n * self.mean**2) / (self.n - 1) if self.n > 1 else 0.0


def weighed(n: float, w: float, w2: float, wx: float, w2x: float, w2x2: float) -> LogGroup:
    """Group of `n` logarithms x with weights w, by the sums of what the names multiply.

    Its mean is the weighted one, and variance / n that mean's squared error, with Kish's effective
    number (Survey Sampling, 1965, section 8.2).
    """
    if n < 2 or w <= 0:
        return LogGroup(0, 0.0, 0.0)
    mean, many = wx / w, w * w / w2
    error = max(0.0, w2x2 - 2 * mean * w2x + mean * mean * w2) / (w * w) * n / (n - 1)
    return LogGroup(many, many * mean, many * (many - 1) * error + many * mean * mean)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio with its interval."""

    value: float
    low: float
    high: float


def welch_ratio(treated: LogGroup, control: LogGroup) -> Ratio | None:
    """Geometric mean of the treated over the control group's, with Welch's interval.

    None where either group is too small. Welch, Biometrika 34 (1947).
    """
    if min(treated.n, control.n) < FEWEST:
        return None
    parts = [group.variance / group.n for group in (treated, control)]
    error = sqrt(sum(parts))
    if error == 0:
        return Ratio(*(exp(treated.mean - control.mean),) * 3)
    freedom = sum(parts) ** 2 / sum(
        part**2 / (group.n - 1) for part, group in zip(parts, (treated, control), strict=True)
    )
    middle, reach = treated.mean - control.mean, student(freedom) * error
    return Ratio(exp(middle), exp(middle - reach), exp(middle + reach))


def student(freedom: float, level: float = LEVEL) -> float:
    """Two-sided quantile of Student's t, by Cornish and Fisher's expansion (NIST 26.7.5).

    Within 1 % from 4 degrees of freedom on.
    """
    z, n = normal_reach(level), max(freedom, 3.0)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / n ** (power + 1) for power, term in enumerate(terms))


def share(hits: float, of: float) -> Ratio | None:
    """A share with Wilson's interval; None of nothing."""
    if of <= 0:
        return None
    z = normal_reach(LEVEL)
    rate, spread = hits / of, 1 + z * z / of
    middle = (rate + z * z / (2 * of)) / spread
    reach = z / spread * sqrt(rate * (1 - rate) / of + z * z / (4 * of * of))
    return Ratio(rate, max(0.0, middle - reach), min(1.0, middle + reach))
