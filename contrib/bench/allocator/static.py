"""Divisions of full nodes: random mixes under the allocator, other policies and the optimum."""

from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any

from contrib.bench.allocator.baselines import greedy, rates, synergy_tune
from contrib.bench.allocator.tables import (
    CORES,
    GPUS,
    MIXES,
    SHARE,
    Curve,
    Tables,
    as_offers,
    mixes,
    spread,
)
from slurm_ext.policy.allocator.allocate import allocate
from slurm_ext.policy.allocator.job_demands import JobDemand


def divided(curves: Sequence[Curve], *, fair: bool) -> list[int]:
    """Cores of each job, by the allocator."""
    allocation = allocate(
        [
            JobDemand(
                job=f"{place:02d}",
                points=as_offers(curve),
                share_units=SHARE,
                now=None,
                agreed=not fair,
            )
            for place, curve in enumerate(curves)
        ],
        CORES,
    )
    return [allocation.points[job].units for job in sorted(allocation.points)]


def optimum(curves: Sequence[Curve], *, fair: bool) -> float:
    """The largest sum of rates over shares that any division reaches, by integer programming."""
    import numpy as np
    from scipy.optimize import Bounds, LinearConstraint, milp

    options = [
        (job, cores, rate / curve[SHARE])
        for job, curve in enumerate(curves)
        for cores, rate in curve.items()
        if not fair or rate >= curve[SHARE]
    ]
    one_each = [[float(job == place) for job, _, _ in options] for place in range(len(curves))]
    solution = milp(
        c=[-worth for _, _, worth in options],
        integrality=np.ones(len(options)),
        bounds=Bounds(0, 1),
        constraints=[
            LinearConstraint([[cores for _, cores, _ in options]], ub=CORES),
            LinearConstraint(one_each, lb=1, ub=1),
        ],
    )
    return -float(solution.fun)


def relative(curves: Sequence[Curve], cores: Sequence[int]) -> list[float]:
    """Each job's rate over that of its even share."""
    shares = [curve[SHARE] for curve in curves]
    return [rate / share for rate, share in zip(rates(curves, cores), shares, strict=True)]


def gain(curves: Sequence[Curve], cores: Sequence[int]) -> float:
    """Per cent over the even split."""
    return 100 * (sum(relative(curves, cores)) / len(curves) - 1)


def static(tables: Tables, reading: Callable[[Curve], Curve], count: int, proved: int) -> Any:
    """Every policy on the same random mixes."""
    curves = {model: reading(curve) for model, curve in tables.curves.items()}
    figures: dict[str, Any] = {}
    for name, weights in MIXES.items():
        drawn = mixes(tables.by_class(), weights, count=count, jobs=GPUS, seed=7)
        jobs = [[curves[model] for model in models] for models in drawn]
        figures[name] = {
            "fair": _scored(jobs, proved, fair=True),
            "free": _scored(jobs, proved, fair=False),
            "baselines": {
                "even_split": spread([gain(mix, [SHARE] * GPUS) for mix in jobs]),
                "greedy": spread([gain(mix, greedy(mix, CORES, SHARE)) for mix in jobs]),
                "synergy_tune": spread(
                    [gain(mix, synergy_tune(mix, CORES, SHARE)) for mix in jobs]
                ),
            },
        }
    return figures


def _scored(jobs: Sequence[Sequence[Curve]], proved: int, *, fair: bool) -> dict[str, Any]:
    cores = [divided(mix, fair=fair) for mix in jobs]
    gains = [gain(*pair) for pair in zip(jobs, cores, strict=True)]
    best = [100 * (optimum(mix, fair=fair) / len(mix) - 1) for mix in jobs[:proved]]
    return {
        **spread(gains),
        "worst_job_ratio": min(min(relative(*pair)) for pair in zip(jobs, cores, strict=True)),
        "optimum": {
            "mixes": len(best),
            "mean": mean(best),
            "ours_on_these": mean(gains[:proved]),
            "largest_loss": max(b - g for b, g in zip(best, gains, strict=False)),
        },
    }
