"""Node type and number of nodes of a training, by time and by cost. Pure.

    time = start-up + samples / rate        cost = time * nodes * price of a node

Every shape is priced; there is no search that could miss one. Both bounds of a time come from the
rate's interval, so that a deadline is met by the slow end, and a budget by the dear end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import erf, exp, log, sqrt

import numpy as np

from slurm_ext.core.records import Interval
from slurm_ext.core.stats import NORMAL_90
from slurm_ext.model.arrays import Array

HOUR_S = 3600.0
LEAST_SD = 1e-6  # of a log time that is known
CERTAIN = 1.5  # ratio of a time's bounds up to which it is worth no trial


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """One kind of node; None: it sets no limit that is known."""

    name: str
    gpu: str  # its type, as Slurm or the driver names it
    gpus: int
    cores: int
    price_per_hour: float  # of one node, in any currency
    mem_bytes: float | None = None
    disk_bytes_per_s: float | None = None
    net_bytes_per_s: float | None = None
    speed: float | None = None  # of one GPU in a benchmark, in any unit that the table shares
    most_nodes: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedShape:
    """Whole nodes of one type, and the rate that is predicted on them."""

    node: NodeType
    nodes: int
    batch: float  # samples a GPU
    samples_per_s: float
    interval: Interval
    limit: str  # the stall that decides, in model/throughput/bottleneck.py's words
    rests_on: str = ""  # runs that the prediction rests on, in words

    @property
    def gpus(self) -> int:
        """GPUs of the whole job."""
        return self.node.gpus * self.nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingGoal:
    """Work that is left, and what its owner wants of it; None: no limit."""

    samples: float
    startup_s: float = 0.0
    deadline_s: float | None = None
    budget: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedShape:
    """A shape with its time and cost, and the bounds of both."""

    shape: RatedShape
    time_s: float
    time: Interval
    cost: float
    cost_bounds: Interval
    front: bool = False  # no other shape is both faster and cheaper

    @property
    def certain(self) -> bool:
        """True if a trial would hardly narrow its time."""
        return self.time.high <= CERTAIN * self.time.low

    @property
    def log_sd(self) -> float:
        """Standard deviation of the log time: log-normal with these bounds."""
        return max(LEAST_SD, log(self.time.high / self.time.low) / (2 * NORMAL_90))

    @property
    def expected_cost(self) -> float:
        """Mean cost: what the wide end may cost weighs more than the narrow one saves."""
        return self.cost * exp(self.log_sd**2 / 2)

    def chance(self, deadline_s: float) -> float:
        """Probability of being done by then."""
        return 0.5 * (1 + erf(log(deadline_s / self.time_s) / self.log_sd / sqrt(2)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeChoice:
    """The recommended shapes; None: no shape is sure to stay within the limit."""

    cheapest: PricedShape | None  # within the deadline, or of all without one
    fastest: PricedShape | None  # within the budget, or of all without one
    every: tuple[PricedShape, ...]  # by expected time
    likeliest: PricedShape | None = None  # to meet a deadline that none is sure to meet

    @property
    def front(self) -> tuple[PricedShape, ...]:
        """Shapes that no other one beats in both time and cost, the fastest first."""
        return tuple(shape for shape in self.every if shape.front)


def choose_nodes(shapes: Sequence[RatedShape], goal: TrainingGoal) -> ShapeChoice:
    """Price every shape, and take the cheapest and the fastest that stay within the limits."""
    every = priced(shapes, goal)
    inside = [
        shape for shape in every if goal.deadline_s is None or shape.time.high <= goal.deadline_s
    ]
    paid = [
        shape for shape in every if goal.budget is None or shape.cost_bounds.high <= goal.budget
    ]
    return ShapeChoice(
        cheapest=min(inside, key=lambda shape: (shape.expected_cost, shape.time_s), default=None),
        fastest=min(paid, key=lambda shape: (shape.time_s, shape.cost), default=None),
        every=tuple(every),
        likeliest=None if inside else _likeliest(every, goal.deadline_s),
    )


def _likeliest(every: Sequence[PricedShape], deadline_s: float | None) -> PricedShape | None:
    if deadline_s is None:
        return None
    return max(every, key=lambda shape: (shape.chance(deadline_s), -shape.cost), default=None)


def priced(shapes: Sequence[RatedShape], goal: TrainingGoal) -> list[PricedShape]:
    """Every shape with its time and cost, the fastest first."""
    if not shapes:
        return []
    ends = ((shape.samples_per_s, shape.interval.high, shape.interval.low) for shape in shapes)
    times = goal.startup_s + goal.samples / np.array(list(ends))
    hourly = np.array([shape.nodes * shape.node.price_per_hour for shape in shapes])
    costs = times / HOUR_S * hourly[:, None]
    front = _on_front(times[:, 0], costs[:, 0])
    return [
        PricedShape(
            shape=shapes[place],
            time_s=float(times[place, 0]),
            time=Interval(float(times[place, 1]), float(times[place, 2])),
            cost=float(costs[place, 0]),
            cost_bounds=Interval(float(costs[place, 1]), float(costs[place, 2])),
            front=front[place],
        )
        for place in np.lexsort((costs[:, 0], times[:, 0]))
    ]


def _on_front(times: Array, costs: Array) -> list[bool]:
    """Mark shapes that are cheaper than every faster one."""
    order = np.lexsort((costs, times))
    before = np.concatenate(([np.inf], np.minimum.accumulate(costs[order])[:-1]))
    marks = np.zeros(len(times), dtype=bool)
    marks[order] = costs[order] < before
    return [bool(mark) for mark in marks]
