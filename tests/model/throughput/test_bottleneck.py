"""The bottleneck in a word and the first advice: profiles with one dominant fault each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from slurm_ext.core.advice.advice import Advice
from slurm_ext.core.advice.words import AT_BEST, LIMITS, NAMES
from slurm_ext.core.records import Level, LoaderRun, Shape, ShapeLimits
from slurm_ext.model.throughput.bottleneck import NO_SIGNS, BottleneckSigns, diagnose
from slurm_ext.model.throughput.estimate import estimate

GIB = 1 << 30
NODE = ShapeLimits(max_cpus_per_task=16, node_cores=16, mem_bytes=64 * GIB)
GPU = LoaderRun(
    samples_per_s=800,
    workers=8,
    cores=12,
    batch_size=64,
    accel_samples_per_s=820,
    fetch_wall_s=0.004,
    fetch_cpu_s=0.0035,
    fetch_queued_s=0.0,
    main_cpu_s=0.0011,
    worker_rss_bytes=GIB,
    gpus=1,
)
DECODING = replace(
    GPU,
    samples_per_s=95.0,
    workers=2,
    accel_samples_per_s=900.0,
    fetch_wall_s=0.02,
    fetch_cpu_s=0.019,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A job as it ran, what its limits are, and the first advice that an expert gives."""

    fault: str
    runs: Sequence[LoaderRun]
    word: str
    says: str
    limits: ShapeLimits = NODE
    signs: BottleneckSigns = NO_SIGNS


PROFILES = (
    Profile(
        fault="loads in the training process",
        runs=[replace(DECODING, workers=0, samples_per_s=47.0)],
        word="data",
        says="load in workers",
    ),
    Profile(
        fault="two workers that decode, ten idle cores",
        runs=[DECODING],
        word="data",
        says="more workers",
    ),
    Profile(
        fault="one worker that waits for a far file system",
        runs=[replace(DECODING, workers=1, samples_per_s=19, fetch_wall_s=0.05, fetch_cpu_s=0.001)],
        word="data",
        says="more workers",
    ),
    Profile(
        fault="eight workers that decode on two cores",
        runs=[
            replace(
                DECODING,
                workers=8,
                cores=2,
                samples_per_s=99,
                fetch_wall_s=0.08,
                fetch_queued_s=0.06,
            )
        ],
        word="cores",
        says="more CPUs",
    ),
    Profile(
        fault="costly augmentation on every core of the node",
        runs=[
            replace(
                DECODING,
                workers=16,
                cores=16,
                samples_per_s=310,
                fetch_wall_s=0.05,
                fetch_cpu_s=0.049,
            )
        ],
        word="data",
        says="prepared once",
        limits=replace(NODE, mem_bytes=None),
    ),
    Profile(
        fault="a disk that gives no more to sixteen readers than to eight",
        runs=[
            replace(DECODING, workers=w, samples_per_s=100, fetch_wall_s=w / 100, fetch_cpu_s=0.001)
            for w in (16, 8)
        ],
        word="storage",
        says="a copy of its data on the node",
    ),
    Profile(
        fault="an accelerator at its limit",
        runs=[GPU],
        word="accelerator",
        says="mixed precision",
    ),
    Profile(
        fault="an accelerator that is busy, behind far too many workers",
        runs=[replace(GPU, workers=12)],
        word="accelerator",
        says="nothing in its loader",
        signs=BottleneckSigns(accelerator_busy=0.97),
    ),
    Profile(
        fault="gradients that take a third of each step",
        runs=[replace(GPU, gpus=4)],
        word="network",
        says="gradient buckets",
        signs=BottleneckSigns(network_share=0.35, accelerator_busy=0.6),
    ),
    Profile(
        fault="four GPUs spread over four nodes of eight",
        runs=[replace(GPU, gpus=1)],
        word="network",
        says="on one node",
        signs=BottleneckSigns(network_share=0.5, fits_one_node=True),
    ),
    Profile(
        fault="workers of twelve gigabytes each",
        runs=[replace(DECODING, worker_rss_bytes=12 * GIB)],
        word="memory",
        says="more memory",
        limits=replace(NODE, mem_bytes=32 * GIB),
    ),
    Profile(
        fault="a small model in small batches: kernels of microseconds",
        runs=[replace(GPU, batch_size=4)],
        word="idle",
        says="larger batch",
        signs=BottleneckSigns(accelerator_busy=0.3),
    ),
    Profile(
        fault="a training on CPUs that is as fast as its threads",
        runs=[replace(GPU, on_cpu=1, threads=8, main_cpu_s=8 / GPU.accel_samples_per_s, gpus=0)],
        word="step",
        says="a GPU",
    ),
    Profile(
        fault="a GPU whose process waits for cores that other jobs use",
        runs=[
            replace(
                GPU,
                samples_per_s=0.6 * GPU.samples_per_s,
                main_cpu_s=0.5 / GPU.samples_per_s,
                main_queued_s=0.7 / GPU.samples_per_s,
                step_queued_s=0.6 / GPU.samples_per_s,
                accel_samples_per_s=0.61 * GPU.samples_per_s,
            )
        ],
        word="cores",
        says="cores of its own",
    ),
)


def advice(profile: Profile) -> Advice:
    """What is said of the job as it ran."""
    known = estimate({Level.SCRIPT_ARGS: profile.runs})
    assert known is not None
    ran = profile.runs[0]
    shape = Shape(cpus_per_task=int(ran.cores), num_workers=ran.workers)
    return diagnose(known, shape, profile.limits, signs=profile.signs)


def test_thirteen_of_fourteen_faults_get_the_right_first_advice() -> None:
    """The bar of the design: an expert's word and an expert's first step."""
    right = [
        profile.fault
        for profile in PROFILES
        if (found := advice(profile)).word == profile.word and profile.says in found.next
    ]
    assert len(PROFILES) == 14
    assert len(right) >= 13, [(p.fault, advice(p)) for p in PROFILES if p.fault not in right]


def test_every_word_can_be_said_of_a_job_that_is_as_fast_as_it_gets() -> None:
    """Each word has its name and its clause; what no advice removes has a next step."""
    assert {profile.word for profile in PROFILES} <= set(NAMES) == set(LIMITS)
    assert set(AT_BEST) <= set(NAMES)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.14])
def test_hidden_communication_is_no_fault(share: float) -> None:
    """Below what is worth an advice the accelerator is what counts."""
    signs = BottleneckSigns(network_share=share, accelerator_busy=0.95)
    assert advice(replace(PROFILES[6], signs=signs)).word == "accelerator"


def test_the_gravest_of_two_faults_comes_first() -> None:
    """A loader that costs nine tenths of the speed before messages that cost a fifth of a step."""
    both = replace(PROFILES[1], signs=BottleneckSigns(network_share=0.2))
    assert advice(both).word == "data"
