"""Statistics from sums and bins alone: SQL counts, this concludes. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, sqrt
from statistics import NormalDist

LEVEL = 0.95
FEWEST = 8  # of each group: below, a difference is not told
Bins = Sequence[tuple[int, float]]  # (number, weight), numbers rising


@dataclass(frozen=True, slots=True)
class Group:
    """Logarithms of one group: how many, their sum and the sum of their squares."""

    n: int
    total: float
    squares: float

    @property
    def mean(self) -> float:
        """Of the logarithms; 0 of none."""
        return self.total / self.n if self.n else 0.0

    @property
    def variance(self) -> float:
        """Unbiased; 0 of fewer than two."""
        return max(0.0, self.squares - self.n * self.mean**2) / (self.n - 1) if self.n > 1 else 0.0


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio with its interval."""

    value: float
    low: float
    high: float


def welch_ratio(treated: Group, control: Group) -> Ratio | None:
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
    z, n = NormalDist().inv_cdf((1 + level) / 2), max(freedom, 3.0)
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
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    found, spread = hits / of, 1 + z * z / of
    middle = (found + z * z / (2 * of)) / spread
    reach = z / spread * sqrt(found * (1 - found) / of + z * z / (4 * of * of))
    return Ratio(found, max(0.0, middle - reach), min(1.0, middle + reach))


def quantile(bins: Bins, at: float, width: float) -> float | None:
    """Of what was counted in bins [k width, (k + 1) width), evenly within each; None of nothing."""
    total = sum(weight for _, weight in bins)
    if total <= 0:
        return None
    before = 0.0
    for number, weight in bins:
        if weight > 0 and before + weight >= at * total:
            return width * (number + (at * total - before) / weight)
        before += weight
    return width * (bins[-1][0] + 1)


def coarser(bins: Bins, by: int) -> list[tuple[int, float]]:
    """Bins that are `by` times as wide."""
    found: dict[int, float] = {}
    for number, weight in bins:
        found[number // by] = found.get(number // by, 0.0) + weight
    return sorted(found.items())
