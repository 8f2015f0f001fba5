"""Twelve faults and two controls, as an expert would inject them; what is right is written here.

Each profile has one dominant fault of at least a quarter of the step and often a second one of at
most 8 %: the start of workers with each pass. Seeds change sizes, costs and lengths. What is right
follows from what was injected, never from a rule of dlqueue's.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from contrib.bench.advice.ranks import RankedJob, ranked_record
from contrib.bench.advice.training import Job, record

LOADER = frozenset(
    {
        "load_in_workers",
        "more_workers",
        "more_workers_to_read",
        "local_copy",
        "more_memory",
        "more_cpus",
        "cheaper_samples",
        "deeper_prefetch",
        "persistent_workers",
    }
)
WORKERS = frozenset({"load_in_workers", "more_workers", "more_workers_to_read"})
CPUS = frozenset({"more_cpus"})
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A fault: its record by a seed, what is right, and what must not be said.

    `right`: actions, any of which an expert would give first; empty: no advice at all.
    """

    right: frozenset[str]
    never: frozenset[str] = frozenset()
    never_first: frozenset[str] = frozenset()
    never_word: frozenset[str] = frozenset()
    record: Callable[[random.Random], dict[str, Any]]


def _loading(rng: random.Random, **changes: Any) -> Job:
    """A training with a loader, on two cores; some have a second, small fault."""
    job = Job(
        batch=rng.choice((4, 8, 16)),
        step_s=rng.uniform(0.04, 0.12),
        host_s=rng.uniform(0.001, 0.004),
        batches=rng.randrange(150, 400),
    )
    job = replace(job, **changes)
    if rng.random() < 0.5 and job.workers:  # a second fault: up to 6 % of a pass
        start_s = rng.uniform(0.0, 0.06) * job.batches * job.step_s
        job = replace(job, start_s=job.start_s + start_s)
    return job


def main_loads(rng: random.Random) -> dict[str, Any]:
    """The training process spins for each sample."""
    job = _loading(rng, workers=0)
    each_s = rng.uniform(0.6, 1.5) * job.step_s / job.batch
    return record(replace(job, cpu_s=each_s), rng)


def too_few(rng: random.Random) -> dict[str, Any]:
    """One worker whose samples wait for a service, and idle cores."""
    job = _loading(rng, workers=1)
    each_s = rng.uniform(1.5, 3.0) * job.step_s / job.batch
    return record(replace(job, sleep_s=0.92 * each_s, cpu_s=0.08 * each_s), rng)


def starved(rng: random.Random) -> dict[str, Any]:
    """Six workers that compute on one core."""
    job = _loading(rng, workers=6, cores=1.0)
    return record(replace(job, cpu_s=rng.uniform(1.6, 3.0) * job.step_s / job.batch), rng)


def small_files(rng: random.Random) -> dict[str, Any]:
    """Thousands of files of some KB, each behind a slow open."""
    job = _loading(rng, workers=rng.choice((1, 2)))
    each_s = rng.uniform(1.6, 3.0) * job.workers * job.step_s / job.batch
    return record(
        replace(job, sleep_s=0.95 * each_s, cpu_s=0.05 * each_s, read_bytes=rng.uniform(2e3, 16e3)),
        rng,
    )


def slow_disk(rng: random.Random) -> dict[str, Any]:
    """A disk of 20 MB/s that all readers share; some runs tried other worker counts before."""
    job = _loading(rng, workers=rng.choice((2, 4)), disk=20e6)
    read_bytes = rng.uniform(1.6, 3.0) * job.step_s * job.disk / job.batch
    rate = job.disk / read_bytes
    tried = tuple((w, rate * rng.uniform(0.96, 1.04)) for w in (1, 2, 4))
    return record(
        replace(
            job,
            read_bytes=read_bytes,
            cpu_s=0.1 * job.step_s / job.batch,
            rates=tried if rng.random() < 0.5 else (),
        ),
        rng,
    )


def mem_wall(rng: random.Random) -> dict[str, Any]:
    """Workers of 300 MB in a job whose memory holds two of them."""
    job = _loading(rng, workers=2, rss_bytes=300 * MIB, mem_bytes=rng.randrange(650, 880) * MIB)
    each_s = rng.uniform(1.6, 3.0) * job.workers * job.step_s / job.batch
    return record(replace(job, sleep_s=0.9 * each_s, cpu_s=0.1 * each_s), rng)


def slow_samples(rng: random.Random) -> dict[str, Any]:
    """Three samples of a hundred take 25 times as long; on average workers keep up."""
    job = _loading(rng, workers=rng.choice((2, 3)), batch=rng.choice((4, 8)))
    mean = 1 + 0.03 * 24
    each_s = rng.uniform(0.80, 0.90) * job.workers * job.step_s / job.batch / mean
    return record(
        replace(job, sleep_s=0.7 * each_s, cpu_s=0.3 * each_s, slow_share=0.03, slow_times=25.0),
        rng,
    )


def epoch_restart(rng: random.Random) -> dict[str, Any]:
    """Passes of forty batches, each of which starts its workers again for 1.5 s."""
    step_s = rng.uniform(0.04, 0.09)
    job = _loading(rng, workers=2, step_s=step_s, batches=40)
    return record(replace(job, start_s=1.5, cpu_s=0.5 * job.step_s / job.batch), rng)


def tiny_step(rng: random.Random) -> dict[str, Any]:
    """A step of 3 ms, of which the host spins 2 ms."""
    host_s = rng.uniform(0.0017, 0.0023)
    job = _loading(rng, workers=2, step_s=0.003, host_s=host_s, batches=8000)
    return record(replace(job, cpu_s=0.0006 / job.batch, start_s=0.03), rng)


def one_bucket(rng: random.Random) -> dict[str, Any]:
    """Two ranks on one node that send all gradients at the end of the backward pass."""
    return ranked_record(
        RankedJob(comm=rng.uniform(0.45, 0.7), buckets=1, nodes=1, node_cores=4), rng
    )


def slow_rank(rng: random.Random) -> dict[str, Any]:
    """One of two ranks computes longer, always the same."""
    return ranked_record(
        RankedJob(comm=0.25, buckets=10, slower=rng.uniform(0.4, 0.7), nodes=1, node_cores=4), rng
    )


def spread(rng: random.Random) -> dict[str, Any]:
    """Two ranks on two nodes whose link is slow, though one node has room for both."""
    return ranked_record(
        RankedJob(comm=rng.uniform(1.4, 2.0), buckets=10, nodes=2, node_cores=8), rng
    )


def healthy(rng: random.Random) -> dict[str, Any]:
    """A loader with time to spare."""
    job = _loading(rng, workers=2)
    return record(replace(job, cpu_s=rng.uniform(0.2, 0.8) * job.step_s / job.batch), rng)


def noisy_neighbour(rng: random.Random) -> dict[str, Any]:
    """A healthy loader whose cores another job eats."""
    job = _loading(rng, workers=2, others=rng.choice((2, 3)))
    return record(replace(job, cpu_s=rng.uniform(0.8, 1.1) * job.step_s / job.batch), rng)


_NETWORK = frozenset({"buckets", "one_node", "compress_gradients"})
PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        "main_loads": Profile(record=main_loads, right=frozenset({"load_in_workers"}), never=CPUS),
        "too_few": Profile(
            record=too_few, right=frozenset({"more_workers"}), never_word=frozenset({"storage"})
        ),
        "starved": Profile(record=starved, right=CPUS, never=WORKERS),
        "small_files": Profile(
            record=small_files,
            right=frozenset({"more_workers_to_read", "larger_files"}),
            never=CPUS,
        ),
        "slow_disk": Profile(record=slow_disk, right=frozenset({"local_copy"}), never=WORKERS),
        "mem_wall": Profile(record=mem_wall, right=frozenset({"more_memory"}), never=WORKERS),
        "slow_samples": Profile(
            record=slow_samples, right=frozenset({"deeper_prefetch"}), never_first=CPUS
        ),
        "epoch_restart": Profile(
            record=epoch_restart, right=frozenset({"persistent_workers"}), never=WORKERS
        ),
        "tiny_step": Profile(record=tiny_step, right=frozenset({"larger_batch"}), never=LOADER),
        "one_bucket": Profile(
            record=one_bucket, right=frozenset({"buckets"}), never=frozenset({"one_node"})
        ),
        "slow_rank": Profile(
            record=slow_rank, right=frozenset({"exclude_node"}), never=frozenset({"buckets"})
        ),
        "spread": Profile(
            record=spread, right=frozenset({"one_node"}), never=frozenset({"buckets"})
        ),
        "healthy": Profile(record=healthy, right=frozenset()),
        "noisy_neighbour": Profile(record=noisy_neighbour, right=frozenset()),
    }
)
FAULTS = tuple(name for name, profile in PROFILES.items() if profile.right)
CONTROLS = tuple(name for name, profile in PROFILES.items() if not profile.right)
