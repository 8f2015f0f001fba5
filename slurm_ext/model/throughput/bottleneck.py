"""Names the bottleneck of a training, and the next thing to do about it. Pure rules.

The names: data (its loader cannot keep up), storage, accelerator (as it should be), network
(ranks wait for each other), memory (more workers would help and do not fit), idle (nothing is
busy), step (that of a training on CPUs), cores (other jobs want the same ones). This is their only
place.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from slurm_ext.core.records import Shape, ShapeLimits
from slurm_ext.model.throughput.curve import Point
from slurm_ext.model.throughput.estimate import Estimate, point_at

EXPOSED = 0.15  # share of a step that is communication which nothing hides
BUSY = 0.60  # of an accelerator's time: below it a larger step costs nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class BottleneckSigns:
    """Facts of a training at one shape beside its point on the curve; None: unknown."""

    loads_itself: bool = False  # no workers
    others: bool = False  # its last runs waited for cores that other jobs used
    most_workers: bool = False  # its memory holds no more of them
    most_cores: bool = False  # its node or partition has no more
    network_share: float | None = None  # of a step: communication that nothing hides
    accelerator_busy: float | None = None  # share of the time
    fits_one_node: bool = False  # it runs on several nodes, and one has as many GPUs


@dataclass(frozen=True, slots=True)
class Advice:
    """Name of the bottleneck, and one clause for the user."""

    word: str
    next: str


LIMITS: Mapping[str, str] = MappingProxyType(
    {
        "accelerator": "the accelerator is",
        "storage": "storage is",
        "data": "the CPUs are",
        "network": "the network is",
        "memory": "memory is",
        "idle": "nothing is",
        "step": "its step on the CPUs is",
        "cores": "other jobs on its cores are",
    }
)
"""`... the limit`: said of a job that is as fast as it gets."""


def advise(point: Point, signs: BottleneckSigns) -> Advice:
    """Return the most expensive bottleneck and what to do about it."""
    network = signs.network_share or 0.0
    if network > EXPOSED and network * (1 - point.stalled) > point.stalled:
        return _network(signs)
    binds = point.limit
    if binds == "storage":
        return Advice(binds, "fewer, larger files or a copy on the node: more readers do not help")
    if binds == "data":
        return _data(point, signs)
    if signs.others:
        return Advice("cores", "cores of its own: other jobs want those that it has")
    if binds == "step":
        return Advice(binds, "a GPU, or more CPUs if its program computes on all of them")
    if signs.accelerator_busy is not None and signs.accelerator_busy < BUSY:
        return Advice("idle", "a larger batch, then several ranks to a GPU: it has little to do")
    return Advice(binds, "nothing in its loader: mixed precision, or a faster GPU")


def _network(signs: BottleneckSigns) -> Advice:
    if signs.fits_one_node:
        return Advice("network", "all its GPUs on one node: they wait for each other's messages")
    return Advice("network", "larger gradient buckets that overlap the backward pass")


def _data(point: Point, signs: BottleneckSigns) -> Advice:
    """Workers before CPUs before cheaper samples: in the order of what they cost."""
    if point.wall >= point.cpu and signs.most_workers:
        return Advice("memory", "more memory for the job: no more workers fit")
    if signs.loads_itself:
        return Advice("data", "load in workers: the accelerator waits whenever it loads")
    if point.wall >= point.cpu:
        return Advice("data", "more workers: its CPUs have time to spare")
    if signs.most_cores:
        return Advice("data", "cheaper samples, prepared once: every CPU there is works on them")
    return Advice("data", "more CPUs: its workers wait for them")


NO_SIGNS = BottleneckSigns()


def diagnose(
    known: Estimate,
    shape: Shape,
    limits: ShapeLimits,
    *,
    node_cores: int | None = None,
    signs: BottleneckSigns = NO_SIGNS,
) -> Advice:
    """Return the bottleneck at `shape` and the next thing to do.

    `signs`: facts from elsewhere (network, how busy its accelerator is); the rest follows from
    the limits. `node_cores`: cores the machine really has.
    """
    cores = min(shape.cpus_per_task, node_cores or shape.cpus_per_task)
    most_cores = min(limits.max_cpus_per_task, limits.node_cores, node_cores or limits.node_cores)
    signs = replace(
        signs,
        loads_itself=shape.num_workers == 0,
        others=known.others > 0,
        most_workers=_most_workers(known, shape, limits),
        most_cores=cores >= most_cores,
    )
    return advise(point_at(known, shape.num_workers, cores), signs)


def _most_workers(known: Estimate, shape: Shape, limits: ShapeLimits) -> bool:
    """True if one more worker would not fit the job's memory."""
    if limits.mem_bytes is None or not known.worker_rss_bytes:
        return False
    return (shape.num_workers + 1) * known.worker_rss_bytes > limits.mem_bytes
