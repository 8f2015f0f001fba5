"""Random questions: a table of node types with prices, a measured shape, a deadline, the truth."""

from dataclasses import dataclass

import numpy as np

from contrib.bench.recommend.measured import PRICE, SIZES, Measured, Place
from slurm_ext.policy.node_shapes import NodeType, TrainingGoal

TYPES = 6  # of a table
PRICE_SD = 0.35  # log, around a usual price: regions, spot markets, on premises
MOST_NODES = 16
CORES = 8  # of each GPU
SAMPLES_H = 8.0  # hours of work on the measured shape
FEWEST = 5  # shapes to choose from


@dataclass(frozen=True, slots=True)
class Question:
    """One random table; `truth` has the samples/s of every shape that was measured."""

    model: str
    table: tuple[NodeType, ...]
    here: Place
    batch: float
    goal: TrainingGoal
    truth: dict[tuple[str, int], float]  # (node type, nodes)
    on_each: dict[str, tuple[Place, float]]  # by GPU: the smallest place, and its rate

    def cost(self, name: str, nodes: int) -> float:
        """True cost of a shape."""
        return self.time_s(name, nodes) / 3600 * nodes * self.node(name).price_per_hour

    def time_s(self, name: str, nodes: int) -> float:
        """True time of a shape."""
        return self.goal.samples / self.truth[name, nodes]

    def node(self, name: str) -> NodeType:
        """A type by its name."""
        return next(one for one in self.table if one.name == name)

    def cheapest(self) -> float:
        """The least true cost within the deadline."""
        within = self.goal.deadline_s or float("inf")
        return min(self.cost(*shape) for shape in self.truth if self.time_s(*shape) <= within)


def question(dice: np.random.Generator, models: dict[str, Measured]) -> Question:
    """Draw until a table has enough measured shapes of at least two kinds of GPU."""
    while True:
        drawn = _drawn(dice, models)
        if drawn is not None:
            return drawn


def _drawn(dice: np.random.Generator, models: dict[str, Measured]) -> Question | None:
    model = str(dice.choice(sorted(models)))
    measured = models[model]
    kinds = [(gpu, size) for gpu, sizes in SIZES.items() for size in sizes]
    some = [kinds[at] for at in dice.permutation(len(kinds))[:TYPES]]
    gpu, size = some[0]
    here = Place(gpu, size, 1)
    batches = measured.batches(here)
    if not batches:
        return None
    batch = float(dice.choice(batches))
    offered = [_offer(dice, measured, kind, batch) for kind in some]
    table = tuple(node for node, truth in offered if truth)
    truth = {key: rate for _, rates in offered for key, rate in rates.items()}
    if len(truth) < FEWEST or len({node.gpu for node in table}) < 2:
        return None
    samples = SAMPLES_H * 3600 * (measured.rate(here, batch) or 0.0)
    return Question(
        model=model,
        table=table,
        here=here,
        batch=batch,
        goal=TrainingGoal(samples=samples, deadline_s=_deadline(dice, table, truth, samples)),
        truth=truth,
        on_each=_on_each(measured, table, batch),
    )


def _offer(
    dice: np.random.Generator, measured: Measured, kind: tuple[str, int], batch: float
) -> tuple[NodeType, dict[tuple[str, int], float]]:
    """A node type with a price, and its measured rates from one node on without a gap."""
    gpu, size = kind
    name = f"{size}x{gpu}"
    truth: dict[tuple[str, int], float] = {}
    for nodes in range(1, MOST_NODES + 1):
        rate = measured.rate(Place(gpu, size, nodes), batch)
        if rate is None:
            break
        truth[name, nodes] = rate
    price = PRICE[gpu] * size * float(np.exp(dice.normal(0, PRICE_SD)))
    node = NodeType(
        name=name,
        gpu=gpu,
        gpus=size,
        cores=CORES * size,
        price_per_hour=price,
        most_nodes=max(1, len(truth)),
    )
    return node, truth


def _deadline(
    dice: np.random.Generator,
    table: tuple[NodeType, ...],
    truth: dict[tuple[str, int], float],
    samples: float,
) -> float:
    """Between the fastest shape's time and that of the cheapest, in logs, with some room."""
    prices = {node.name: node.price_per_hour for node in table}
    times = {shape: samples / rate for shape, rate in truth.items()}
    cheapest = min(times, key=lambda shape: times[shape] * shape[1] * prices[shape[0]])
    fast, cheap = 1.1 * min(times.values()), 1.5 * times[cheapest]
    return float(np.exp(dice.uniform(np.log(min(fast, cheap)), np.log(max(fast, cheap)))))


def _on_each(
    measured: Measured, table: tuple[NodeType, ...], batch: float
) -> dict[str, tuple[Place, float]]:
    """One node of the smallest type of each kind of GPU."""
    found: dict[str, tuple[Place, float]] = {}
    for node in sorted(table, key=lambda one: one.gpus):
        place = Place(node.gpu, node.gpus, 1)
        rate = measured.rate(place, batch)
        if rate is not None:
            found.setdefault(node.gpu, (place, rate))
    return found
