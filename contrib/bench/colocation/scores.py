"""ProtocolResult of a protocol of the co-location benchmark, and scores of predicted speeds.

A protocol is a module with

    def protocol(train: Path, test: Path, *, quick: bool) -> ProtocolResult

that raises InputError naming the table where one that it needs is not in `test` (it is then
skipped and named). `colocation` lists the modules.

Speeds are relative to the job alone. Accept is "at least FLOOR of its speed alone". The mean
decides for the baselines and in `auc`, `accuracy` and `mean_harmful`; ours also has an interval,
and dlqueue accepts by its lower end: `harmful_accepts` is the share of those accepted that fell
below the floor, `accepted_of_good` the share of the truly good that were accepted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from contrib.bench.common import metrics
from contrib.bench.common.arrays import Array, Marks

FLOOR = 0.8
COVERAGE = (0.88, 0.92)
AUC, HARMFUL = 0.98, 0.03


@dataclass(frozen=True, eq=False, slots=True)
class Predictions:
    """Predictions of the same rows: ours with its 90 % interval, every baseline's mean."""

    measured: Array
    mean: Array
    low: Array
    high: Array
    baselines: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class ProtocolResult:
    """One protocol's figures by name, what was aimed at, and what was left out (with the file)."""

    figures: dict[str, Any]
    wanted: list[dict[str, Any]]
    skipped: list[str] = field(default_factory=list)


def scores(predictions: Predictions, where: Marks | None = None) -> dict[str, Any]:
    """Figures of ours and of every baseline over all rows, or over the rows marked in `where`."""
    rows = np.ones(len(predictions.measured), bool) if where is None else np.asarray(where, bool)
    measured, mean, low, high = (
        array[rows]
        for array in (predictions.measured, predictions.mean, predictions.low, predictions.high)
    )
    return {
        "n": len(measured),
        "ours": {**errors(mean, measured), **bounds(low, high, measured)},
        "baselines": {
            name: errors(array[rows], measured) for name, array in predictions.baselines.items()
        },
    }


def errors(predicted: Array, measured: Array) -> dict[str, float | None]:
    """Scores of predicted speeds, and of accepting by them."""
    good, accepted = measured >= FLOOR, predicted >= FLOOR
    return {
        **metrics.errors(predicted, measured),
        "auc": metrics.auc(predicted, good),
        "accuracy": metrics.share(good == accepted),
        "mean_harmful": metrics.share(~good, accepted),
    }


def bounds(low: Array, high: Array, measured: Array) -> dict[str, float | None]:
    """Coverage and width of the 90 % interval, and the outcome of accepting by `low`.

    A speed that is known by definition (the interval is a point) is covered by no merit of the
    interval: coverage and width leave it out, unless nothing else is there.
    """
    if not len(measured):
        return {}
    good, accepted = measured >= FLOOR, low >= FLOOR
    rows = (high > low) if (high > low).any() else np.ones(len(low), bool)
    return {
        "coverage90": metrics.coverage(low[rows], high[rows], measured[rows]),
        "below_low": metrics.share((measured < low)[rows]),
        "median_width": float(np.median((high - low)[rows])),
        "accepted": int(accepted.sum()),
        "harmful_accepts": metrics.share(~good, accepted),
        "harmful_of_all": metrics.share(accepted & ~good),
        "accepted_of_good": metrics.share(accepted, good),
    }


def row(what: str, target: Any, got: float | None, *, met: bool) -> dict[str, Any]:
    """One wanted thing."""
    return {"what": what, "target": target, "got": got, "met": met}


def wanted(
    name: str, ours: Mapping[str, Any], *, mae: float, accepts: bool = False
) -> list[dict[str, Any]]:
    """The rows every protocol has: error, coverage, and on request accepting at the floor."""
    inside, auc, harmful = ours["coverage90"], ours["auc"], ours["harmful_accepts"]
    low, high = COVERAGE
    rows = [
        row(f"{name}: MAE at most", mae, ours["mae"], met=ours["mae"] <= mae),
        row(
            f"{name}: share inside the 90 % interval",
            list(COVERAGE),
            inside,
            met=low <= inside <= high,
        ),
    ]
    if accepts:
        what = f"{name}: accept/reject AUC at floor {FLOOR}, at least"
        rows.append(row(what, AUC, auc, met=auc is not None and auc >= AUC))
        what = f"{name}: accepted by the lower bound but below floor {FLOOR}, share at most"
        rows.append(row(what, HARMFUL, harmful, met=harmful is not None and harmful <= HARMFUL))
    return rows


def joined(parts: Sequence[Predictions]) -> Predictions:
    """The rows of all folds behind each other."""

    def together(name: str) -> Array:
        return np.concatenate([getattr(part, name) for part in parts])

    baselines = {
        name: np.concatenate([part.baselines[name] for part in parts])
        for name in parts[0].baselines
    }
    measured, mean, low, high = map(together, ("measured", "mean", "low", "high"))
    return Predictions(measured, mean, low, high, baselines)
