"""The division of GPUs by the optimiser that a site chooses: one function, live and replayed. Pure.

| name      | what it is                                                                         |
|-----------|------------------------------------------------------------------------------------|
| dp        | gpu_division.allot: exact over sizes that always find a place                      |
| evolution | a search over placements from dp's answer on (genetic_search.py): every size that  |
|           | is alike on as few nodes as it needs, such as 3, or 6 on two nodes of 4            |

Both admit the same jobs. Slurm places by itself: of a placement only each job's size is used. Two
jobs of several nodes never share one then, so that the search's interference between such jobs
counts in replays alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slurm_ext.core.errors import InputError
from slurm_ext.policy.elastic.genetic_search import Problem, Schedules, matrix, search
from slurm_ext.policy.elastic.gpu_division import (
    DivisionTerms,
    Utility,
    admitted,
    allot,
    divide,
    sizes_of,
    utilities,
)

Floats = NDArray[np.float64]
OPTIMISERS = ("dp", "evolution")
SEED, MOST, LEAST = 0, 100, 5  # generations; no clock: the same state gives the same division
WORK = 500_000  # jobs x nodes of all generations: seconds on one core


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuBudget:
    """GPUs that are divided, and GPUs of a node."""

    gpus: int
    per_node: int

    @property
    def nodes(self) -> int:
        """As many as hold them; on the last one others may have a part."""
        return -(-self.gpus // self.per_node)


def sizes_for(optimiser: str, budget: GpuBudget, most: int) -> tuple[int, ...]:
    """GPUs of a job that an optimiser chooses from, up to `most`. Raises InputError."""
    usual = sizes_of(budget.gpus, budget.per_node, most)
    if optimiser != "evolution":
        return usual
    every = range(1, min(most, budget.gpus) + 1)
    return tuple(size for size in every if size % -(-size // budget.per_node) == 0)


def divided(
    optimiser: str,
    jobs: Sequence[Utility],
    sizes: Sequence[int],
    budget: GpuBudget,
    terms: DivisionTerms,
) -> dict[str, int]:
    """GPUs for each job that gets some. `jobs` are over `sizes` (sizes_for)."""
    if optimiser == "dp":
        return allot(jobs, sizes, budget.gpus, terms)
    kept = admitted(jobs, sizes, budget.gpus, terms)
    if not kept:
        return {}
    utility = utilities(kept, sizes, terms)
    sizes_given = _by_evolution(utility, sizes, budget)
    return {job.name: size for job, size in zip(kept, sizes_given, strict=True)}


def _by_programme(utility: Floats, sizes: Sequence[int], budget: GpuBudget) -> list[int]:
    return [sizes[column] for column in divide(utility, sizes, budget.gpus)]


def _by_evolution(utility: Floats, sizes: Sequence[int], budget: GpuBudget) -> list[int]:
    """The best placement that is found, from dp's on parts of nodes and whole ones on.

    Where none can be made of that, dp's division is the answer. A job that can have none of those
    sizes, such as one of 3 GPUs, lets dp choose from all.
    """
    usual = np.isin(sizes, sizes_of(budget.gpus, budget.per_node, max(sizes)))
    try:
        exact = _by_programme(np.where(usual, utility, -np.inf), sizes, budget)
    except InputError:
        exact = _by_programme(utility, sizes, budget)
    start = _placed(exact, budget)
    if start is None:
        return exact
    problem = _problem(utility, sizes, budget)
    rng = np.random.default_rng(SEED)
    count = min(MOST, max(LEAST, WORK // (problem.jobs * problem.nodes)))
    best, _ = search(problem, [start], rng, lambda generation, _: generation >= count)
    sizes_found: list[int] = best.sum(axis=1)[: len(exact)].tolist()
    return sizes_found if set(sizes_found) <= set(sizes) else exact


def _problem(utility: Floats, sizes: Sequence[int], budget: GpuBudget) -> Problem:
    """A job's speedup is -1/utility: the search's score is then the same sum."""
    taken = _taken(budget)
    jobs, nodes = len(utility) + bool(taken), budget.nodes
    speedup = np.zeros((jobs, nodes * budget.per_node + 1, nodes + 1))
    for column, size in enumerate(sizes):
        speedup[: len(utility), size, -(-size // budget.per_node)] = -1 / utility[:, column]
    if taken:
        speedup[-1, taken, 1] = 1.0  # what others hold: it runs so, or not at all
    return Problem(speedup=speedup, nodes=nodes, per_node=budget.per_node, even=True)


def _taken(budget: GpuBudget) -> int:
    return budget.nodes * budget.per_node - budget.gpus


def _placed(sizes: Sequence[int], budget: GpuBudget) -> Schedules | None:
    """Each on as few nodes as it needs, the largest first, where it leaves the least; or none."""
    free = [budget.per_node] * budget.nodes
    places: dict[int, dict[int, int]] = {}
    if taken := _taken(budget):
        free[-1] -= taken
        places[len(sizes)] = {budget.nodes - 1: taken}
    for job in sorted(range(len(sizes)), key=lambda job: -sizes[job]):
        count = -(-sizes[job] // budget.per_node)
        per_node = sizes[job] // count
        fits = sorted((left, at) for at, left in enumerate(free) if left >= per_node)[:count]
        if len(fits) < count or per_node * count != sizes[job]:
            return None
        places[job] = {at: per_node for _, at in fits}
        for _, at in fits:
            free[at] -= per_node
    return matrix([places[job] for job in sorted(places)], budget.nodes)
