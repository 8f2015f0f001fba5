"""The bottleneck's name and the advice exactly at their limits."""

from dataclasses import replace

import pytest

from slurm_ext.core.records import Level, LoaderRun, Shape, ShapeLimits
from slurm_ext.model.throughput.bottleneck import (
    BUSY,
    EXPOSED,
    LIMITS,
    BottleneckSigns,
    advise,
    diagnose,
)
from slurm_ext.model.throughput.curve import STALLED, Point
from slurm_ext.model.throughput.estimate import Estimate, estimate

NONE = BottleneckSigns()


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


def test_the_network_comes_first_where_it_costs_more() -> None:
    """More than EXPOSED of a step, and more than the stall."""
    for share, stalled, word in (
        (EXPOSED, 0.0, "accelerator"),
        (EXPOSED + 0.01, 0.0, "network"),
        (0.4, 0.2, "network"),  # 0.32 of the time against 0.2
        (0.4, 0.3, "data"),  # 0.28 against 0.3
        (None, 0.0, "accelerator"),
    ):
        signs = BottleneckSigns(network_share=share)
        assert advise(point(stalled, wall=1.0), signs).word == word
    near = advise(point(0.0), BottleneckSigns(network_share=0.5, fits_one_node=True))
    far = advise(point(0.0), BottleneckSigns(network_share=0.5))
    assert ("one node" in near.next, "buckets" in far.next) == (True, True)


@pytest.mark.parametrize(
    ("wall", "cpu", "signs", "word", "says"),
    [
        (0.5, 0.5, {"most_workers": True}, "memory", "more memory"),
        (0.4, 0.5, {"most_workers": True}, "data", "more CPUs"),
        (0.5, 0.5, {"loads_itself": True}, "data", "load in workers"),
        (0.4, 0.5, {"loads_itself": True}, "data", "load in workers"),
        (0.5, 0.5, {}, "data", "more workers"),
        (0.4, 0.5, {}, "data", "more CPUs"),
        (0.4, 0.5, {"most_cores": True}, "data", "cheaper samples"),
        (0.5, 0.5, {"most_cores": True}, "data", "more workers"),
    ],
)
def test_what_helps_a_loader(
    wall: float, cpu: float, signs: dict[str, bool], word: str, says: str
) -> None:
    """Workers before CPUs before cheaper samples; memory where no worker fits."""
    advice = advise(point(0.9, wall=wall, cpu=cpu), replace(NONE, **signs))
    assert advice.word == word
    assert advice.next.startswith(says)


def test_a_lazy_accelerator_is_idle() -> None:
    """Below BUSY of its time; from there on it is as it should be."""
    words = [
        advise(point(0.0), BottleneckSigns(accelerator_busy=busy)).word
        for busy in (BUSY - 0.01, BUSY, None)
    ]
    assert words == ["idle", "accelerator", "accelerator"]
    assert advise(point(0.9, storage=1.0), NONE).word == "storage"


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


def known(**changes: int | None) -> Estimate:
    """The estimate of RUN."""
    answer = estimate({Level.SCRIPT: [RUN]})
    assert answer is not None
    return replace(answer, **changes)  # type: ignore[arg-type]  # the memory of a worker alone


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


def test_every_advice_in_full() -> None:
    """Users read these words."""
    said = [
        (point(0.0), {"network_share": 0.5, "fits_one_node": True}),
        (point(0.0), {"network_share": 0.5}),
        (point(0.9, storage=1.0), {}),
        (point(0.9, wall=1.0), {"most_workers": True}),
        (point(0.9, wall=1.0), {"loads_itself": True}),
        (point(0.9, wall=1.0), {}),
        (point(0.9, cpu=1.0), {"most_cores": True}),
        (point(0.9, cpu=1.0), {}),
        (point(0.0), {"accelerator_busy": 0.1}),
        (point(0.0), {}),
        (point(0.0), {"others": True}),
        (replace(point(0.0), on_cpu=True), {}),
    ]
    advices = [advise(at, replace(NONE, **signs)) for at, signs in said]  # type: ignore[arg-type]  # by name
    assert [(advice.word, advice.next) for advice in advices] == [
        ("network", "all its GPUs on one node: they wait for each other's messages"),
        ("network", "larger gradient buckets that overlap the backward pass"),
        ("storage", "fewer, larger files or a copy on the node: more readers do not help"),
        ("memory", "more memory for the job: no more workers fit"),
        ("data", "load in workers: the accelerator waits whenever it loads"),
        ("data", "more workers: its CPUs have time to spare"),
        ("data", "cheaper samples, prepared once: every CPU there is works on them"),
        ("data", "more CPUs: its workers wait for them"),
        ("idle", "a larger batch, then several ranks to a GPU: it has little to do"),
        ("accelerator", "nothing in its loader: mixed precision, or a faster GPU"),
        ("cores", "cores of its own: other jobs want those that it has"),
        ("step", "a GPU, or more CPUs if its program computes on all of them"),
    ]
    assert dict(LIMITS) == {
        "accelerator": "the accelerator is",
        "storage": "storage is",
        "data": "the CPUs are",
        "network": "the network is",
        "memory": "memory is",
        "idle": "nothing is",
        "step": "its step on the CPUs is",
        "cores": "other jobs on its cores are",
    }
    assert (EXPOSED, BUSY) == (0.15, 0.60)
