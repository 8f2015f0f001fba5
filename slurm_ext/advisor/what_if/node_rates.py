"""Rates of a training on whole nodes of several types, from its runs on one of them. Pure.

One rank has each GPU, with an even part of its node's cores, memory and disk. On GPUs that the
training never ran on, its accelerator is that of its own runs times the gain that other trainings
had (model/scaling/gpu_speed.py). Where neither runs nor a benchmark name one, nothing is predicted.
A wide interval is no reason to leave a shape out: who has a deadline is protected by its slow end.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf
from typing import TYPE_CHECKING

from slurm_ext.advisor.what_if.speed import of_model
from slurm_ext.core.errors import DlqueueError, UsageError
from slurm_ext.core.gpu_request import is_model
from slurm_ext.core.records import Interval, Level, LoaderRun, Shape, ShapeLimits
from slurm_ext.model.scaling.gpu_speed import SAME_SPEED, from_benchmark
from slurm_ext.model.scaling.multi_gpu_estimate import (
    RankEstimate,
    RankGroup,
    ScalingPredictor,
    estimate_rank,
    gpus_and_nodes,
    measurement_of,
)
from slurm_ext.model.throughput.bottleneck import BottleneckSigns, diagnose
from slurm_ext.model.throughput.estimate import Estimate, estimate
from slurm_ext.model.throughput.evidence_checks import usable_runs, why_no_estimate
from slurm_ext.model.throughput.inversion import LogNormal
from slurm_ext.model.throughput.shape_predictor import core_predictor
from slurm_ext.policy.node_shapes import NodeType, RatedShape

if TYPE_CHECKING:
    from slurm_ext.model.scaling.by_bytes import GradientBytes
    from slurm_ext.model.scaling.family import Family
    from slurm_ext.model.scaling.model import ScalingMeasurement, ScalingModel
    from slurm_ext.model.scaling.other_nodes import OtherNodes

Evidence = Mapping[Level, Sequence[LoaderRun]]
MOST_SHAPES = 5000  # of all nodes together: one or two milliseconds each
Gain = Callable[[str, str], LogNormal | None]
"""Rate of the next training on the second GPU type over that on the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Facts of a training's runs beside their rates; None: not known."""

    evidence: Evidence
    family: "Family | None" = None
    factor: float = 1.0  # on the width of intervals
    busy: float | None = None  # share of the time that its GPUs were at work
    most_batch: int | None = None  # largest global batch that its owner allows
    gradients: "GradientBytes | None" = None


@dataclass(frozen=True, slots=True)
class NodeRates:
    """Shapes with a predicted rate, and why others have none."""

    shapes: tuple[RatedShape, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)  # node type to the reason


def node_rates(run: RunFacts, table: Sequence[NodeType], gain: Gain) -> NodeRates:
    """Rate every node type of the table at each number of nodes that makes it faster."""
    shapes, left_out = list[RatedShape](), dict[str, str]()
    for node in table:
        try:
            rated = _OnType(run, table, node, gain).shapes()
            shapes += islice(rated, MOST_SHAPES + 1 - len(shapes))
        except (DlqueueError, LookupError) as error:
            left_out[node.name] = str(error.args[0] if isinstance(error, LookupError) else error)
    if len(shapes) > MOST_SHAPES:
        why = f"more than {MOST_SHAPES} numbers of nodes to rate: name fewer nodes"
        raise UsageError(f"{why}, a smaller most_nodes or a smaller batch")
    return NodeRates(tuple(shapes), left_out)


class _OnType:
    """One training on nodes of one type. Raises LookupError with the reason if it has no rate."""

    def __init__(
        self, run_facts: RunFacts, table: Sequence[NodeType], node: NodeType, gain: Gain
    ) -> None:
        self.known, self.node = run_facts, node
        every = _of_one_rank_each(run_facts.evidence)
        own = of_model(every, node.gpu)
        believed = estimate(own)
        if believed is None:  # of one GPU model, too: the newest run's
            newest = next((run.gpu_model for run in _nearest(every)), None)
            own = of_model(every, newest)
            believed = estimate(own)
        self.evidence: Evidence = own
        if believed is None:
            raise LookupError(why_no_estimate(every))
        self.believed: Estimate = believed
        self.runs = [run for run in _nearest(self.evidence) if measurement_of(run) is not None]
        if not self.runs:
            raise LookupError("no run of it on a GPU says how many GPUs it had")
        self.here = self.runs[0].gpu_model
        self.busy = 1.0 if run_facts.busy is None else run_facts.busy
        self.gain, self.rests_on = self._gain(table, gain)
        self.there = self._there(_of(table, self.here))

    def shapes(self) -> Iterator[RatedShape]:
        """Each number of nodes, as long as the batch divides among its GPUs."""
        newest = self.runs[0]
        batch = newest.batch_size
        whole = batch * (newest.ranks or 1)
        most = max(whole, self.known.most_batch or 0.0)
        for nodes in range(1, self.node.most_nodes + 1):
            per_gpu = min(batch, most / (nodes * self.node.gpus))
            if per_gpu < 1:
                return
            yield self._at(nodes, per_gpu)

    def _gain(self, table: Sequence[NodeType], gain: Gain) -> tuple[LogNormal, str]:
        if is_model(self.node.gpu, self.here):
            return SAME_SPEED, "its own runs on these GPUs"
        here = self.here or "an unnamed GPU"
        if self.here is not None and (ratio := gain(self.here, self.node.gpu)) is not None:
            return ratio, f"its runs on {here}, and others' gain from there to {self.node.gpu}"
        measured = _of(table, self.here)
        if measured is not None and measured.speed and self.node.speed:
            gained = from_benchmark(measured.speed, self.node.speed)
            return gained, f"its runs on {here}, and the table's speed of {self.node.gpu}"
        raise LookupError(f"nobody ran on both {here} and {self.node.gpu}: give both a speed")

    def _at(self, nodes: int, batch: float) -> RatedShape:
        ranks = RankGroup(of_job=nodes * self.node.gpus, on_node=self.node.gpus)
        rank = self._rank(ranks, nodes, batch)
        cores = self.node.cores / self.node.gpus
        workers = self._workers(cores)
        predicted = core_predictor(rank.believed, factor=self.known.factor)(cores, workers)
        shape = Shape(cpus_per_task=max(1, int(cores)), num_workers=workers)
        full = ShapeLimits(max_cpus_per_task=shape.cpus_per_task, node_cores=shape.cpus_per_task)
        signs = BottleneckSigns(network_share=rank.network_share)
        return RatedShape(
            node=self.node,
            nodes=nodes,
            batch=batch,
            samples_per_s=predicted.samples_per_s * ranks.of_job,
            interval=Interval(
                predicted.interval.low * ranks.of_job, predicted.interval.high * ranks.of_job
            ),
            limit=diagnose(rank.believed, shape, full, signs=signs).word,
            rests_on=self.rests_on,
        )

    def _there(self, measured: NodeType | None) -> ScalingPredictor:
        """Scaling on this type; `measured`: the table's word on the nodes that it ran on."""
        from slurm_ext.model.scaling.model import fit

        points = [point for point in map(measurement_of, self.runs) if point is not None]
        family = self.known.family
        prior = family.prior(model="", cluster=self.here or "") if family else None
        scaling = fit(points, prior)
        return self._by_bytes(points, scaling, self._without_bytes(scaling, measured))

    def _without_bytes(self, scaling: "ScalingModel", measured: NodeType | None) -> "OtherNodes":
        from slurm_ext.model.scaling.other_nodes import OtherNodes, on_known_nodes

        family = self.known.family
        others = family and self._known_as(family)
        if family and others and self.gain is not SAME_SPEED:
            there, batch = family.prior(model="", cluster=others), self.runs[0].batch_size
            return on_known_nodes(scaling, there, self.gain, busy=self.busy, batch=batch)
        here, link = measured and measured.net_bytes_per_s, self.node.net_bytes_per_s
        ratio = here / link if here and link else 1.0
        return OtherNodes(here=scaling, gain=self.gain, busy=self.busy, link=ratio)

    def _by_bytes(
        self, points: "Sequence[ScalingMeasurement]", scaling: "ScalingModel", others: "OtherNodes"
    ) -> ScalingPredictor:
        """By the gradients' bytes where they are known."""
        from slurm_ext.model.scaling.by_bytes import ScalingByBytes

        if self.known.gradients is None or self.here is None:
            return others
        return ScalingByBytes(
            points=points,
            on=self.here,
            gpu=self.node.gpu,
            gain=self.gain,
            busy=self.busy,
            gradients=self.known.gradients,
            alone=scaling,
            otherwise=others,
        )

    def _known_as(self, family: "Family") -> str | None:
        """The family's name of the GPUs that are asked about."""
        return next((name for name in family.clusters if is_model(self.node.gpu, name)), None)

    def _rank(self, ranks: RankGroup, nodes: int, batch: float) -> RankEstimate:
        from slurm_ext.model.scaling.model import TrainingConfig

        config = TrainingConfig(gpus=ranks.of_job, nodes=nodes, local_batch=batch)
        seen = self.runs[0].gpus  # with a rank on each
        rank = estimate_rank(self.believed, self.there, config, ranks=ranks, seen_on_node=seen)
        disk = self._disk(ranks)
        return rank if disk is None else replace(rank, believed=_with_disk(rank.believed, disk))

    def _disk(self, ranks: RankGroup) -> float | None:
        """Samples/s that the disk of a node gives one rank; None: unknown."""
        size, rate = self.believed.bytes_per_sample, self.node.disk_bytes_per_s
        return rate / size / ranks.on_node if rate and size else None

    def _workers(self, cores: float) -> int:
        """A worker a core, as far as memory holds them."""
        rss, memory = self.believed.worker_rss_bytes, self.node.mem_bytes
        workers = inf if not rss or memory is None else memory / self.node.gpus // rss
        return int(max(1, min(cores, workers)))


def _of(table: Sequence[NodeType], gpu_model: str | None) -> NodeType | None:
    """The table's first type with these GPUs."""
    return next((node for node in table if is_model(node.gpu, gpu_model)), None)


def _with_disk(believed: Estimate, samples_per_s: float) -> Estimate:
    return replace(believed, storage_samples_per_s=samples_per_s)


def _of_one_rank_each(evidence: Evidence) -> Evidence:
    """The runs that are not known to have had more ranks, or fewer, than GPUs.

    Raises LookupError where there were others alone.
    """
    kept = {level: [run for run in runs if _one_each(run)] for level, runs in evidence.items()}
    others = [run for runs in evidence.values() for run in runs]
    if others and not any(kept.values()):
        ranks, (gpus, _) = others[0].ranks, gpus_and_nodes(others[0]) or (0, 0)
        raise LookupError(f"no run with one rank on each GPU: it had {ranks} ranks on {gpus}")
    return {level: runs for level, runs in kept.items() if runs}


def _one_each(run: LoaderRun) -> bool:
    gpus, _ = gpus_and_nodes(run) or (0, 0)
    return not gpus or run.ranks in (None, gpus)


def _nearest(evidence: Evidence) -> list[LoaderRun]:
    """Usable runs of the nearest level that has any, newest first."""
    for level in Level:
        runs = usable_runs(evidence.get(level, ()))
        if runs and level is not Level.CLUSTER:
            return runs
    return []
