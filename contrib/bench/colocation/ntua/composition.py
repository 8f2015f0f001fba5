"""Rules of model/slowdown/composition.py for more neighbours than were measured, compared.

NTUA's runs beside 2 to 4 neighbours of one kind are predicted from runs of the same campaign and
request rate beside one of them, and beside two parts of them. Figures: mean absolute errors, and
the share of runs that were slower than predicted.
"""

from collections.abc import Callable, Iterator

import numpy as np

from contrib.bench.colocation.ntua.tables import Runs
from contrib.bench.common import metrics
from slurm_ext.model.slowdown.composition import added

Rule = Callable[[list[float]], float]

RULES: dict[str, Rule] = {
    "product": lambda parts: float(np.prod(parts)),
    "sum_of_slowdowns": added,
    "worst_alone": min,
    "product_to_root_of_number": lambda parts: float(np.prod(parts) ** np.sqrt(len(parts))),
}


def composed(runs: Runs) -> dict[str, dict[str, float | None]]:
    """By rule: error and share below from one neighbour alone, and from two parts."""
    singly, halves = list(_cases(runs, halves=False)), list(_cases(runs, halves=True))
    by_rule = {}
    for name, rule in RULES.items():
        by_rule[name] = {
            f"{what}_{key}": value
            for what, cases in (("from_one", singly), ("from_parts", halves))
            for key, value in _errors(cases, rule).items()
        }
    return by_rule


def _cases(runs: Runs, *, halves: bool) -> Iterator[tuple[list[float], float]]:
    """Speeds of the parts, and the measured one of all together."""
    met = {
        (runs.campaign[row], runs.context[row, 0], int(np.argmax(runs.beside[row])), many): speed
        for row, speed in enumerate(runs.speed)
        if np.isfinite(runs.beside[row]).all()
        and (many := int(runs.beside[row].sum()))
        and (runs.beside[row] > 0).sum() == 1
    }
    for (*where, many), speed in met.items():
        if many < (3 if halves else 2):
            continue
        sizes = (many // 2, many - many // 2) if halves else (1,) * many
        parts = [met.get((*where, size)) for size in sizes]
        if None not in parts:
            yield [min(1.0, float(part)) for part in parts if part is not None], float(speed)


def _errors(cases: list[tuple[list[float], float]], rule: Rule) -> dict[str, float | None]:
    if not cases:
        return {}
    predicted = np.array([rule(parts) for parts, _ in cases])
    truth = np.array([speed for _, speed in cases])
    return {
        "n": len(cases),
        "mae": metrics.mae(predicted, truth),
        "worse_than_told": metrics.share(truth < predicted),
    }
