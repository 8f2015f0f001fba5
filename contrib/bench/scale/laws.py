"""The law of a cost by size: measured points, the better of two forms, and how far it errs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, inf, log
from statistics import fmean, median

NEARLY = 0.1  # of the usual cost: such a slope, taken a hundred times as far, is noise
MIN_POINTS = 3  # of which the others predict the largest
Point = tuple[float, float]  # size, cost: both above zero
Form = tuple[float, float, float]  # base, slope and power
Fit = Callable[[Sequence[Point]], Form]


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """base + slope * size ** power; `error`: of the largest point, predicted by the others."""

    base: float
    slope: float
    power: float
    error: float

    def at(self, size: float) -> float:
        """The cost at a size."""
        return float(self.base + self.slope * size**self.power)

    def size_of(self, cost: float) -> float:
        """The size at which the cost is reached; infinite where it never is."""
        if self.at(0.0) >= cost:
            return 0.0
        return ((cost - self.base) / self.slope) ** (1 / self.power) if self.grows else inf

    @property
    def grows(self) -> bool:
        """False where size does not matter."""
        return self.slope > 0 and self.power > 0.02

    def __str__(self) -> str:
        power = f"^{self.power:.2f}" if self.power != 1.0 else ""
        return f"{self.base:.3g} + {self.slope:.3g} x{power}"


def law_of(points: Sequence[Point]) -> Law:
    """The form that predicts the largest point better; a constant where all points are alike."""
    ordered = sorted(points)
    usual = median(cost for _, cost in ordered)
    alike = all(abs(cost - usual) <= NEARLY * usual for _, cost in ordered)
    forms: tuple[Fit, ...] = (_constant,) if alike else (_line, _power)
    form = min(forms, key=lambda fit: _error(fit, ordered))
    base, slope, power = form(ordered)
    return Law(base=base, slope=slope, power=power, error=_error(form, ordered))


def bounded_law(points: Sequence[Point]) -> Law:
    """The most of a cost that stops growing within the sizes; `error`: between the last two."""
    (_, before), (_, last) = sorted(points)[-2:]
    most = max(cost for _, cost in points)
    return Law(base=most, slope=0.0, power=1.0, error=abs(last - before) / last)


def _constant(points: Sequence[Point]) -> Form:
    """A cost that size does not matter to."""
    return median(cost for _, cost in points), 0.0, 1.0


def _error(fit: Fit, points: Sequence[Point]) -> float:
    """Relative error at the largest point of the fit to the others; one point predicts nothing."""
    if len(points) < MIN_POINTS:
        return inf
    size, cost = points[-1]
    base, slope, power = fit(points[:-1])
    return float(abs(base + slope * size**power - cost) / cost)


def _line(points: Sequence[Point]) -> Form:
    """Least squares of relative errors, so that small sizes count as large ones do."""
    weights = [1 / cost**2 for _, cost in points]
    whole = sum(weights)
    mean_x = sum(w * x for w, (x, _) in zip(weights, points, strict=True)) / whole
    mean_y = sum(w * y for w, (_, y) in zip(weights, points, strict=True)) / whole
    spread = sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, points, strict=True))
    both = sum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, points, strict=True))
    slope = both / spread if spread else 0.0
    base = mean_y - slope * mean_x
    return (base, slope, 1.0) if base >= 0 and slope >= 0 else (0.0, *_power(points)[1:])


def _power(points: Sequence[Point]) -> Form:
    """A straight line of logarithms."""
    logs = [(log(size), log(cost)) for size, cost in points]
    mean_x, mean_y = fmean(x for x, _ in logs), fmean(y for _, y in logs)
    spread = sum((x - mean_x) ** 2 for x, _ in logs)
    power = sum((x - mean_x) * (y - mean_y) for x, y in logs) / spread if spread else 0.0
    return 0.0, exp(mean_y - power * mean_x), power
