"""Ways to choose a shape from one measured one: ours, and what people do without it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from contrib.bench.recommend.measured import PEAK, Place
from contrib.bench.recommend.tables import Question
from slurm_ext.advisor.what_if.node_rates import RunFacts, node_rates
from slurm_ext.core.records import Level, LoaderRun
from slurm_ext.model.scaling.by_bytes import GradientBytes
from slurm_ext.model.scaling.family import Family
from slurm_ext.model.scaling.gpu_speed import GpuRate, gain
from slurm_ext.model.throughput.inversion import LogNormal
from slurm_ext.policy.node_shapes import RatedShape, choose_nodes
from slurm_ext.training.scaling.rows import ScalingRow

Chosen = tuple[str, int]  # node type, nodes
ALLOWED = 1 << 40  # batch: every GPU brings the measured one


def run_of(place: Place, batch: float, rate: float) -> LoaderRun:
    """A run that waited for no data: the tables measured the steps alone."""
    return LoaderRun(
        samples_per_s=rate / (place.each * place.nodes),
        accel_samples_per_s=rate / (place.each * place.nodes),
        workers=4,
        cores=8.0,
        batch_size=batch,
        fetch_wall_s=1e-9,
        fetch_cpu_s=1e-9,
        main_cpu_s=0.0,
        node_cores=8 * place.each,
        gpus=place.each,
        nodes=place.nodes,
        ranks=place.each * place.nodes,
        gpu_model=place.gpu,
    )


@dataclass(frozen=True, slots=True)
class Learned:
    """The other models' word: how trainings scale, and what they gain on another GPU."""

    family: Family | None
    gain: Callable[[str, str], LogNormal | None]
    gradients: GradientBytes | None = None

    def shapes(self, asked: Question, runs: Sequence[LoaderRun]) -> list[RatedShape]:
        """The recommender's rate of every shape that was measured."""
        evidence = {Level.SCRIPT_ARGS: list(runs)}
        known = RunFacts(
            evidence=evidence, family=self.family, most_batch=ALLOWED, gradients=self.gradients
        )
        found = node_rates(known, asked.table, self.gain).shapes
        return [one for one in found if (one.node.name, one.nodes) in asked.truth]


def learned(family: Family | None, rates: Sequence[GpuRate]) -> Learned:
    """By a family, and by rates on one GPU of each kind."""
    return Learned(family, lambda here, there: gain(rates, here, there))


def ours(asked: Question, shapes: Sequence[RatedShape]) -> Chosen:
    """The recommender's cheapest shape; where none is sure to be in time, the likeliest."""
    choice = choose_nodes(shapes, asked.goal)
    best = choice.cheapest or choice.likeliest or choice.every[0]
    return best.shape.node.name, best.shape.nodes


def gpu_rates(rows: Sequence[ScalingRow], without: str) -> list[GpuRate]:
    """One GPU of each kind, by other models' trainings; a model stands for a user."""
    return [
        GpuRate(
            training=f"{row.model}/{row.measured.config.local_batch:g}",
            user=row.model,
            gpu=row.cluster,
            samples_per_s=row.measured.samples_per_s,
        )
        for row in rows
        if row.model != without and row.measured.config.gpus == 1
    ]


def cheapest_an_hour(asked: Question) -> Chosen:
    """One node of the type with the lowest price."""
    return min(asked.table, key=lambda one: one.price_per_hour).name, 1


def fastest_gpu(asked: Question) -> Chosen:
    """One node of the type with the fastest GPU by its data sheet, and most of them."""
    return max(asked.table, key=lambda one: (PEAK[one.gpu], one.gpus)).name, 1


def same_as_last_time(asked: Question) -> Chosen:
    """The measured shape."""
    return f"{asked.here.each}x{asked.here.gpu}", 1


def linear(asked: Question) -> Chosen:
    """The cheapest within the deadline if rates grew with GPUs and their peak rates."""
    rate = asked.truth[f"{asked.here.each}x{asked.here.gpu}", 1] / asked.here.each

    def time_s(shape: Chosen) -> float:
        node = asked.node(shape[0])
        speed = PEAK[node.gpu] / PEAK[asked.here.gpu]
        return asked.goal.samples / (rate * speed * node.gpus * shape[1])

    def cost(shape: Chosen) -> float:
        return time_s(shape) * shape[1] * asked.node(shape[0]).price_per_hour

    inside = [one for one in asked.truth if time_s(one) <= (asked.goal.deadline_s or 0.0)]
    return min(inside, key=cost) if inside else min(asked.truth, key=time_s)


BASELINES: Mapping[str, Callable[[Question], Chosen]] = {
    "cheapest_an_hour": cheapest_an_hour,
    "fastest_gpu": fastest_gpu,
    "same_as_last_time": same_as_last_time,
    "linear": linear,
}


def revealed(asked: Question, *, each: bool) -> Iterator[LoaderRun]:
    """The measured shape; with `each`, one node of every kind of GPU in the table besides."""
    places = {asked.here.gpu: (asked.here, asked.truth[f"{asked.here.each}x{asked.here.gpu}", 1])}
    if each:
        places = {**asked.on_each, **places}
    for place, rate in places.values():
        yield run_of(place, asked.batch, rate)
