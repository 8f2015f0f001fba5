"""Time of the dynamic programme, and results of evolution with and without interference.

Speedups are of trainings of the tables in a random epoch, by the product's own speed model fitted
on the six sizes 1, 2, 4, 8, 16, 32; 16 nodes of 4 GPUs, 12 to 40 jobs. The score is the sum of
1/speedup; lower is better.

Separable: sizes on as few nodes as they need, no interference; evolution starts from one GPU a job
(cold) or from the programme (warm) and has one second. Interference 0.5: two jobs of several nodes
lose half each on a node that they share. The programme divides among all sizes; its sizes are
placed largest first, each where it fits tightest. The programme over parts of a node and whole
nodes alone, which avoids all sharing, is the other baseline.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrib.bench.common.arrays import Array
from slurm_ext.model.scaling.goodput import GradientNoise
from slurm_ext.model.scaling.goodput_speed import StepMeasurement, StepTimeModel, fit
from slurm_ext.policy.elastic import genetic_search, gpu_division, placement
from slurm_ext.simulate.elastic.applications import Application

NODES, PER_NODE = 16, 4
GPUS = NODES * PER_NODE
JOBS = (12, 20, 28, 40)
MEASURED = (1, 2, 4, 8, 16, 32)
SEARCH_S = 1.0
LARGE = (400, 2048)  # jobs, GPUs
MOST_MS, LEAST_SAME, LEAST_MORE = 100.0, 0.99, 0.03


def speedups(app: Application, epoch: int) -> Array:
    """(GPUs + 1) x (nodes + 1), against one GPU; 0 where it cannot run."""
    out = np.zeros((GPUS + 1, NODES + 1))
    grid = [(k, n) for k in range(1, GPUS + 1) for n in range(-(-k // PER_NODE), min(k, NODES) + 1)]
    locals_ = np.unique(np.geomspace(app.local[0], app.local[1], 12).astype(int))
    gpus, nodes = (np.repeat(np.array(column), len(locals_)) for column in zip(*grid, strict=True))
    local = np.tile(locals_, len(grid))
    batch = gpus * local
    compute, sync = _speed(app).steps(gpus, nodes, -(-gpus // nodes), local.astype(float))
    square, variance = app.gradients(app.batches[0], epoch)
    gain = GradientNoise(square=square, variance=variance).gain(batch / app.batches[0])
    allowed = (batch >= app.batches[0]) & (batch <= app.batches[-1])
    rate = np.where(allowed, gain / (compute + sync), 0).reshape(len(grid), -1).max(axis=1)
    for (k, n), one in zip(grid, rate, strict=True):
        out[k, n] = one
    relative: Array = out / out[1, 1]
    return relative


def _speed(app: Application) -> StepTimeModel:
    """Fitted on its least batch and its largest that the tables have everywhere."""
    steps = []
    for gpus in MEASURED:
        place = (min(gpus, PER_NODE),) * max(1, gpus // PER_NODE)
        for local in sorted({app.local[0], min(app.local[1], app.batches[-1] // gpus)}):
            whole_s, sync_s = app.step(place, local)
            compute_s = whole_s - sync_s
            at = {"gpus": gpus, "nodes": len(place), "most": place[0], "local": local}
            steps.append(StepMeasurement(**at, compute_s=compute_s, sync_s=sync_s))
    return fit(steps)


def problem(
    apps: Mapping[str, Application], jobs: int, seed: int, interference: float
) -> genetic_search.Problem:
    """A snapshot of a cluster: trainings whose initial batch fits one GPU."""
    rng = np.random.default_rng(seed)
    fit_one = [apps[n] for n in sorted(apps) if apps[n].batches[0] <= apps[n].local[1]]
    picked = [fit_one[at] for at in rng.integers(len(fit_one), size=jobs)]
    rows = [speedups(app, int(rng.integers(len(app.ends)))) for app in picked]
    return genetic_search.Problem(
        speedup=np.stack(rows), nodes=NODES, per_node=PER_NODE, interference=interference
    )


def divided(
    task: genetic_search.Problem, sizes: tuple[int, ...]
) -> tuple[NDArray[np.int64], float]:
    """Sizes by the programme, and the score that it believes in."""
    fewest = [-(-size // PER_NODE) for size in sizes]
    fast = task.speedup[:, list(sizes), fewest]
    with np.errstate(divide="ignore"):
        utility = np.where(fast > 0, -1 / fast, -np.inf)
    columns = gpu_division.divide(utility, sizes, GPUS)
    return np.array(sizes)[columns], float(utility[np.arange(task.jobs), columns].sum())


def placed(sizes: NDArray[np.int64]) -> genetic_search.Schedules:
    """The largest first, whole nodes for whole multiples, each rest where it fits tightest."""
    out = np.zeros((len(sizes), NODES), dtype=np.int16)
    free = np.full(NODES, PER_NODE)
    for job in sorted(range(len(sizes)), key=lambda one: -sizes[one]):
        left = int(sizes[job])
        while left:
            want = min(left, PER_NODE)
            fits = np.flatnonzero(free >= want)
            node = int(fits[free[fits].argmin()]) if len(fits) else int(free.argmax())
            take = min(want, int(free[node]))
            out[job, node] += take
            free[node] -= take
            left -= take
    return out


def whole(task: genetic_search.Problem) -> genetic_search.Schedules:
    """The programme over parts of a node and whole nodes, placed."""
    sizes, _ = divided(task, gpu_division.sizes_of(GPUS, PER_NODE, GPUS))
    by = {str(job): int(size) for job, size in enumerate(sizes)}
    places = placement.place(by, {}, NODES, PER_NODE)
    return genetic_search.matrix([places[str(job)] for job in range(task.jobs)], NODES)


def for_a_second() -> Callable[[int, float], bool]:
    """Ends a search that begins now."""
    end = perf_counter() + SEARCH_S
    return lambda *_: perf_counter() >= end


def separable(apps: Mapping[str, Application], jobs: int, seed: int) -> dict[str, float]:
    """Score of the exact optimum over that of evolution after a second."""
    task = problem(apps, jobs, seed, 0.0)
    best = divided(task, tuple(range(1, GPUS + 1)))[1]
    task = replace(task, speedup=_anywhere(task.speedup))
    rng = np.random.default_rng(seed)
    cold = placed(np.ones(jobs, dtype=np.int64))
    warm = placed(divided(task, tuple(range(1, GPUS + 1)))[0])
    out = {}
    for name, starts in (("cold", [cold]), ("warm", [cold, warm])):
        out[name] = best / genetic_search.search(task, starts, rng, for_a_second())[1]
    return out


def _anywhere(speedup: Array) -> Array:
    """Speed that depends on the size alone."""
    fewest = -(-np.arange(GPUS + 1) // PER_NODE)
    alone = speedup[:, np.arange(GPUS + 1), fewest]
    return np.repeat(alone[:, :, None], NODES + 1, axis=2)


def interfering(apps: Mapping[str, Application], jobs: int, seed: int) -> dict[str, float]:
    """Scores where jobs of several nodes disturb each other on a node."""
    task = problem(apps, jobs, seed, 0.5)
    every = placed(divided(task, tuple(range(1, GPUS + 1)))[0])
    nodes = whole(task)
    rng = np.random.default_rng(seed)
    score = genetic_search.search(task, [every, nodes], rng, for_a_second())[1]
    at = genetic_search.scores(task, np.stack([every, nodes]))
    return {"programme": -float(at[0]), "whole_nodes": -float(at[1]), "evolution": -score}


def run(apps: Mapping[str, Application], *, quick: bool) -> dict[str, Any]:
    """All figures."""
    cases = [(jobs, seed) for jobs in JOBS for seed in range(1 if quick else 3)]
    same = [separable(apps, *case) for case in cases]
    shared = [interfering(apps, *case) for case in cases]
    gains = [1 - one["evolution"] / one["programme"] for one in shared]
    return {
        "optimiser_ms": timed(quick=quick),
        "separable": {
            name: {"mean": _mean(one[name] for one in same), "worst": min(o[name] for o in same)}
            for name in ("cold", "warm")
        },
        "interference_0.5": {
            "cases": len(cases),
            "better_than_programme": {"mean": _mean(gains), "least": min(gains)},
            "better_than_whole_nodes": _mean(
                1 - one["evolution"] / one["whole_nodes"] for one in shared
            ),
            "whole_nodes_better_than_programme": _mean(
                1 - one["whole_nodes"] / one["programme"] for one in shared
            ),
        },
    }


def _mean(values: Any) -> float:
    return float(np.mean(list(values)))


def timed(*, quick: bool) -> dict[str, Any]:
    """The whole decision at 400 jobs x 2,048 GPUs: admission, utilities, division."""
    jobs, gpus = LARGE
    rng = np.random.default_rng(0)
    out: dict[str, Any] = {}
    for per_node in (4, 8):
        sizes = gpu_division.sizes_of(gpus, per_node, 64)
        power = rng.uniform(0.3, 1.0, (jobs, 1))
        goodput = np.array(sizes)[None, :] ** power
        wishes = [
            gpu_division.Utility(
                name=str(j), goodput=goodput[j], held=1, left=float(rng.uniform(1e2, 1e5))
            )
            for j in range(jobs)
        ]
        took = []
        for _ in range(3 if quick else 9):
            began = perf_counter()
            gpu_division.allot(wishes, sizes, gpus, gpu_division.DivisionTerms())
            took.append((perf_counter() - began) * 1e3)
        key = f"{per_node} GPUs a node, {len(sizes)} sizes to 64"
        out[key] = {"median": float(np.median(took)), "worst": max(took), "repeats": len(took)}
    return out


def wanted(figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of the targets."""
    slowest = max(one["median"] for one in figures["optimiser_ms"].values())
    worst = figures["separable"]["cold"]["worst"]
    gain = figures["interference_0.5"]["better_than_programme"]["mean"]
    return [
        {
            "what": "optimiser, 400 jobs x 2,048 GPUs, median ms, at most",
            "target": MOST_MS,
            "got": round(slowest, 1),
            "met": slowest <= MOST_MS,
        },
        {
            "what": "evolution over the programme where separable, worst, 1 s, cold, at least",
            "target": LEAST_SAME,
            "got": round(worst, 4),
            "met": worst >= LEAST_SAME,
        },
        {
            "what": "evolution better than the programme, interference 0.5, mean, at least",
            "target": LEAST_MORE,
            "got": round(gain, 4),
            "met": gain >= LEAST_MORE,
        },
    ]
