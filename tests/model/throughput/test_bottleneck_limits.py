"""The bottleneck's name and the advice exactly at their limits."""

from dataclasses import replace

from slurm_ext.core.advice.first import BUSY, EXPOSED
from slurm_ext.core.records import Level, LoaderRun, Shape, ShapeLimits
from slurm_ext.model.throughput.bottleneck import BottleneckSigns, diagnose
from slurm_ext.model.throughput.curve.point import STALLED, Point
from slurm_ext.model.throughput.estimate import Estimate, estimate


def point(stalled: float, wall: float = 0.0, cpu: float = 0.0, storage: float = 0.0) -> Point:
    """A point in turns, so that the stalled share is what is given."""
    return Point(
        samples_per_s=1.0,
        supply_samples_per_s=1.0,
        accelerator=1 - stalled,
        wall=wall,
        cpu=cpu,
        storage=storage,
        in_turns=True,
    )


def test_the_accelerator_binds_until_it_waits() -> None:
    """From STALLED on the loader or the storage does, whichever has the larger share."""
    assert point(STALLED - 0.01, wall=1.0).limit == "accelerator"
    assert point(STALLED + 0.01, wall=0.2, cpu=0.2, storage=0.41).limit == "storage"
    assert point(STALLED + 0.01, wall=0.2, cpu=0.2, storage=0.4).limit == "data"
    assert point(STALLED + 0.01, wall=0.4, cpu=0.0, storage=0.3).limit == "data"


RUN = LoaderRun(
    samples_per_s=95.0,
    workers=2,
    cores=8.0,
    batch_size=32,
    accel_samples_per_s=900.0,
    fetch_wall_s=0.02,
    fetch_cpu_s=0.019,
    worker_rss_bytes=100,
)
FED = replace(RUN, samples_per_s=880.0, fetch_wall_s=0.0005, fetch_cpu_s=0.0004)
SHAPE = Shape(cpus_per_task=8, num_workers=2)
ROOMY = ShapeLimits(max_cpus_per_task=64, node_cores=64)


def known(run: LoaderRun = RUN, **changes: int | None) -> Estimate:
    """The estimate of a run."""
    answer = estimate({Level.SCRIPT: [run]})
    assert answer is not None
    return replace(answer, **changes)  # type: ignore[arg-type]  # the memory of a worker alone


def test_exposed_communication_is_worth_a_word_from_its_floor_on() -> None:
    """Up to EXPOSED of a step nothing is said of it, and the accelerator is as it should be."""
    words = [
        diagnose(known(FED), SHAPE, ROOMY, signs=BottleneckSigns(network_share=share)).word
        for share in (None, EXPOSED - 0.01, EXPOSED + 0.03)
    ]
    assert words == ["accelerator", "accelerator", "network"]


def test_a_lazy_accelerator_is_idle() -> None:
    """Well below BUSY of its time; from there on it is as it should be."""
    words = [
        diagnose(known(FED), SHAPE, ROOMY, signs=BottleneckSigns(accelerator_busy=busy)).word
        for busy in (BUSY - 0.05, BUSY + 0.01, None)
    ]
    assert words == ["idle", "accelerator", "accelerator"]


def test_memory_binds_where_the_next_worker_does_not_fit() -> None:
    """Three workers of 100 bytes fit into 300, not into 299; unknown sizes bind nothing."""
    shape = Shape(cpus_per_task=8, num_workers=2)
    limits = ShapeLimits(max_cpus_per_task=8, node_cores=8, mem_bytes=300)
    assert diagnose(known(), shape, limits).word == "data"
    assert diagnose(known(), shape, replace(limits, mem_bytes=299)).word == "memory"
    assert diagnose(known(), shape, replace(limits, mem_bytes=None)).word == "data"
    assert (
        diagnose(known(worker_rss_bytes=None), shape, replace(limits, mem_bytes=1)).word == "data"
    )


def test_cores_are_all_used_by_the_smallest_limit() -> None:
    """Partition, node, and the cores that the machine really has."""
    shape = Shape(cpus_per_task=4, num_workers=8)
    few = ShapeLimits(max_cpus_per_task=4, node_cores=64)
    roomy = ShapeLimits(max_cpus_per_task=5, node_cores=64)
    small = ShapeLimits(max_cpus_per_task=64, node_cores=4)
    assert "cheaper" in diagnose(known(), shape, few).next
    assert "more CPUs" in diagnose(known(), shape, roomy).next
    assert "cheaper" in diagnose(known(), shape, small).next
    assert "cheaper" in diagnose(known(), shape, roomy, node_cores=3).next
    assert "more CPUs" in diagnose(known(), shape, roomy, node_cores=5).next
    alone = diagnose(known(), replace(shape, num_workers=0), roomy)
    assert "load in workers" in alone.next
