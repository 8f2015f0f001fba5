"""A search over placements for what no dynamic programme can divide: shared links and nodes. Pure.

A schedule is jobs x nodes GPUs, as in ONES (SC '21). A generation: uniform crossover of pairs, two
jobs of each child taken out and put back at other sizes, repair so that no node gives more than it
has. The best so far are kept, the given starts among them: never worse than the best start.

Score: the sum of -weight / speedup. A job of several nodes loses the share `interference` on a
node that another such job uses, and a job that is not where it was loses its restart.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from slurm_ext.core.errors import InputError

Floats = NDArray[np.float64]
Schedules = NDArray[np.int16]  # schedules x jobs x nodes
POPULATION = 64
NEVER = 1e6  # of a weight: what a job without GPUs costs


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Problem:
    """Jobs that all shall run, on equal nodes."""

    speedup: Floats  # jobs x (GPUs + 1) x (nodes + 1); 0: it cannot run so
    nodes: int
    per_node: int
    interference: float = 0.0
    weights: Floats = field(default_factory=lambda: np.ones(0))  # of each job; none: all alike
    current: Schedules | None = None  # jobs x nodes
    kept: Floats | None = None  # of each job: speed that is left after a restart
    even: bool = False  # as many GPUs of each of a job's nodes, as Slurm's --gres asks for

    @property
    def jobs(self) -> int:
        """Number of jobs."""
        return len(self.speedup)


def speeds(problem: Problem, schedules: Schedules) -> Floats:
    """Speedup of each job in each schedule: schedules x jobs."""
    sizes, used = schedules.sum(axis=2), schedules > 0
    spread = used.sum(axis=2)
    several = used & (spread > 1)[:, :, None]
    crowded = several.sum(axis=1) > 1
    shares = (several & crowded[:, None, :]).any(axis=2)
    jobs = np.arange(problem.jobs)[None, :]
    out: Floats = problem.speedup[jobs, sizes, spread] * (1 - problem.interference * shares)
    if problem.even:
        out = np.where(schedules.max(axis=2) * spread == sizes, out, 0.0)
    if problem.current is not None and problem.kept is not None:
        moved = (schedules != problem.current[None]).any(axis=2)
        out = np.where(moved & (problem.current.sum(axis=1) > 0), out * problem.kept, out)
    return out


def scores(problem: Problem, schedules: Schedules) -> Floats:
    """Score of each schedule: the search maximises it."""
    fast = speeds(problem, schedules)
    weights = problem.weights if len(problem.weights) else np.ones(problem.jobs)
    waits = np.where(fast > 0, 1 / np.maximum(fast, 1 / NEVER), NEVER)
    out: Floats = -(waits * weights).sum(axis=1)
    return out


def search(
    problem: Problem,
    starts: Sequence[Schedules],
    rng: np.random.Generator,
    enough: Callable[[int, float], bool],
) -> tuple[Schedules, float]:
    """The best schedule found, and its score. `enough(generations, best score)` ends the search.

    Raises InputError where there is no start, or one gives GPUs that are not there.
    """
    population = _population(problem, starts, rng)
    marks = scores(problem, population)
    generation = 0
    while not enough(generation, float(marks.max())):
        kids = _mutated(problem, _crossed(population, marks, rng), rng)
        everyone = np.concatenate([population, kids])
        all_marks = np.concatenate([marks, scores(problem, kids)])
        keep = _best_distinct(all_marks)
        population, marks = everyone[keep], all_marks[keep]
        generation += 1
    best = int(marks.argmax())
    return population[best], float(marks[best])


def _population(
    problem: Problem, starts: Sequence[Schedules], rng: np.random.Generator
) -> Schedules:
    if not starts:
        raise InputError("evolution", "expected at least one schedule to start from")
    first = np.stack(list(starts)).astype(np.int16)
    if first.shape[1:] != (problem.jobs, problem.nodes):
        raise InputError("evolution", f"a start is {first.shape[1:]}: expected jobs x nodes")
    if (first < 0).any() or (first.sum(axis=1) > problem.per_node).any():
        raise InputError("evolution", "a start gives GPUs that are not there")
    copies = first[rng.integers(len(first), size=POPULATION - min(len(first), POPULATION))]
    return np.concatenate([first, _mutated(problem, copies, rng)])


def _best_distinct(marks: Floats) -> NDArray[np.int64]:
    """The best, of equal scores (copies of one schedule, mostly) one first."""
    _, first = np.unique(np.round(marks, 9), return_index=True)
    best = first[::-1][:POPULATION]
    if len(best) < POPULATION:
        rest = np.setdiff1d(np.argsort(-marks, kind="stable"), best, assume_unique=True)
        best = np.concatenate([best, rest[: POPULATION - len(best)]])
    return best.astype(np.int64)


def _crossed(population: Schedules, marks: Floats, rng: np.random.Generator) -> Schedules:
    """Each child has every job from one of two parents; half of the parents are only copied."""
    order = np.argsort(-marks, kind="stable")
    ranks = rng.integers(len(order), size=(2, 2, POPULATION)).min(axis=0)  # the better of two
    one, other = population[order[ranks[0]]], population[order[ranks[1]]]
    takes = rng.random((POPULATION, population.shape[1])) < 0.5
    takes[: POPULATION // 2] = True
    kids: Schedules = np.where(takes[:, :, None], one, other)
    return kids


def _mutated(problem: Problem, kids: Schedules, rng: np.random.Generator) -> Schedules:
    """Repaired, and two jobs of each put back at another size; who has nothing is one of them."""
    if not len(kids):
        return kids
    kids = _repaired(problem, kids, rng)
    rows, sizes = np.arange(len(kids)), kids.sum(axis=2)
    first = (rng.random(sizes.shape) + (sizes == 0)).argmax(axis=1)
    likely = rng.random(sizes.shape) * np.sqrt(sizes)  # who has much can give
    likely[rows, first] = -1
    other = likely.argmax(axis=1)
    held, others = sizes[rows, first], sizes[rows, other]
    kids[rows, first], kids[rows, other] = 0, 0
    room = problem.per_node * problem.nodes - kids.sum(axis=(1, 2))
    share = _sizes(rng, held, np.maximum(room - (other != first), 1), problem)
    _put(problem, kids, first, share)
    _put(problem, kids, other, _sizes(rng, others, np.maximum(room - share, 0), problem))
    return kids


def _sizes(
    rng: np.random.Generator, held: NDArray[np.int64], most: NDArray[np.int64], problem: Problem
) -> NDArray[np.int64]:
    """New sizes: as before, a part or a multiple of it, whole nodes, or anything that is left."""
    rows = len(held)
    nodes = problem.per_node * rng.integers(1, np.maximum(most // problem.per_node, 1) + 1)
    anything = rng.integers(1, np.maximum(most, 1) + 1)
    choices = np.stack([held, held * 2, (held + 1) // 2, held + 1, held - 1, nodes, anything, most])
    picked = choices[rng.integers(len(choices), size=rows), np.arange(rows)]
    return np.clip(picked, np.minimum(1, most), most)


def _put(
    problem: Problem, kids: Schedules, job: NDArray[np.int64], size: NDArray[np.int64]
) -> None:
    """A job of each schedule on nodes: those that hold it all, the tightest first; then others."""
    rows = np.arange(len(kids))
    free = problem.per_node - kids.sum(axis=1)
    count = np.maximum(-(-size // problem.per_node), 1)[:, None]
    wants = np.minimum(size, problem.per_node)[:, None]
    if problem.even:
        wants = size[:, None] // count
    order = np.argsort(np.where(free >= wants, free, 3 * problem.per_node - free), axis=1)
    sorted_free = np.take_along_axis(free, order, axis=1)
    before = np.cumsum(sorted_free, axis=1) - sorted_free
    placed = np.clip(size[:, None] - before, 0, sorted_free)
    if problem.even:
        first = np.arange(problem.nodes)[None, :] < count
        placed = np.where(first & (sorted_free >= wants), wants, 0)
    out = np.zeros_like(free)
    np.put_along_axis(out, order, placed, axis=1)
    kids[rows, job] = out


def _repaired(problem: Problem, kids: Schedules, rng: np.random.Generator) -> Schedules:
    """No node gives more than it has: who comes later, in a random order, gets what is left."""
    order = np.argsort(rng.random(kids.shape[:2]), axis=1)[:, :, None]
    shuffled = np.take_along_axis(kids, order, axis=1)
    before = np.cumsum(shuffled, axis=1) - shuffled
    fits = np.clip(problem.per_node - before, 0, shuffled)
    out = np.empty_like(kids)
    np.put_along_axis(out, np.broadcast_to(order, kids.shape), fits.astype(kids.dtype), axis=1)
    return out


def matrix(places: Sequence[dict[int, int]], nodes: int) -> Schedules:
    """Placements (node -> GPUs), a job a row, as a schedule."""
    out = np.zeros((len(places), nodes), dtype=np.int16)
    for row, there in enumerate(places):
        for node, count in there.items():
            out[row, node] = count
    return out
