"""Advice on a loader: workers, cores, storage, memory, slow samples, start of workers. Pure.

w workers that need a seconds for a batch (u of them on a CPU) deliver one every a / w seconds, and
never more than c cores compute: with m for the training process itself, (u + m) / c. The step
waits for what is longer than the loop. Of that shortage

    cores    (u + m) / c - loop     however many workers there were
    supply   the rest               more workers, or storage that answers sooner

Other jobs' processes make workers queue for cores longer than their own number explains; nobody
can advise this job on that. A wait beyond what mean costs explain comes in bursts: slow samples.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import ceil, exp, floor

from slurm_ext.core.advice.advice import WORTH, Advice, Cost
from slurm_ext.core.advice.facts import TrainingFacts, WorkerFacts

MOST_WORKERS = 64
MOST_TIMES = 8  # the CPUs that it has
HEADROOM = 0.8  # of the loop: workers that are only just quick enough still make it wait
TAILS = 2  # times the workers, where slow samples hold some of them up
SLOW_RATIO = 2.5  # of the 99th percentile of a batch's time to its median
QUEUED = 0.25  # of a worker's time: from there on cores are what it waits for
BLOCKED = 0.5  # of a worker's time alone: from there on storage is what it waits for
LEAST_READ = 512  # bytes for a sample: the probe's own looking reads some, a sample has more
_LOADS_ITSELF = "the accelerator waits whenever it loads"
SMALL = 64 * 1024  # bytes of a sample: what file systems treat as a small file; latency is its time


def loader_advice(facts: TrainingFacts) -> Iterator[Advice]:
    """Advice on what the step waits for data; nothing where it does not wait."""
    loader = facts.loader
    if loader is None:
        return
    yield from _start(facts, loader)
    if facts.wait_s <= 0:
        return
    short_s = min(facts.wait_s, max(0.0, _interval_s(facts, loader) - facts.loop_s))
    cores_s = min(short_s, max(0.0, cores_interval_s(facts, loader) - facts.loop_s))
    burst_s = _burst_s(facts, loader, short_s)
    supply_s = short_s - cores_s
    yield from _cores(facts, loader, cores_s, supply_s + burst_s)
    if short_s > 0:  # while workers do not keep up, what is made ahead is soon used up
        yield from _supply(facts, loader, supply_s, burst_s)
    elif burst_s > 0:
        yield _bursts(burst_s)


def cores_interval_s(facts: TrainingFacts, loader: WorkerFacts) -> float:
    """Seconds between two batches if its cores never rest."""
    return (loader.cpu_s + facts.main_cpu_s) / facts.cores


def _interval_s(facts: TrainingFacts, loader: WorkerFacts) -> float:
    """Seconds between two batches of these workers on cores that nobody else wants."""
    if loader.workers == 0:
        return facts.loop_s + loader.wall_s  # nothing overlaps
    return max(loader.alone_s / loader.workers, loader.storage_s, cores_interval_s(facts, loader))


def needed_workers(facts: TrainingFacts, loader: WorkerFacts) -> int:
    """Workers that keep up with the loop, as far as the cores let them."""
    enough = _enough(facts, loader, cores_interval_s(facts, loader))
    return min(MOST_WORKERS, max(loader.workers + 1, enough))


def _enough(facts: TrainingFacts, loader: WorkerFacts, cores_s: float) -> int:
    """Workers that keep up with the loop on cores that have a batch ready every `cores_s`."""
    target_s = max(HEADROOM * facts.loop_s, cores_s)
    enough = ceil(loader.alone_s / target_s) if target_s > 0 else MOST_WORKERS
    return min(MOST_WORKERS, enough * (TAILS if has_slow_samples(loader) else 1))


def _start(facts: TrainingFacts, loader: WorkerFacts) -> Iterator[Advice]:
    """Workers that each pass starts again; the first pass has to start them anyway."""
    if loader.workers == 0 or facts.restart_s <= 0:
        return
    yield Advice(
        word="start",
        action="persistent_workers",
        next="keep its workers from pass to pass: each pass waits until new ones deliver",
        removable_s=facts.restart_s,
    )


def _cores(
    facts: TrainingFacts, loader: WorkerFacts, cores_s: float, supply_s: float
) -> Iterator[Advice]:
    """More CPUs where all of them work; cheaper samples where there are no more.

    Where workers are short, too, they come with the CPUs: either alone leaves the step waiting.
    """
    if cores_s <= 0:
        return
    if facts.room_cores < floor(facts.cores) + 1:
        yield _cheaper_samples(facts, cores_s)
        return
    cpus = _wanted_cpus(facts, loader)
    left_s = cores_interval_s(replace(facts, cores=cpus), loader)
    enough = _enough(facts, loader, left_s)
    both = loader.workers < enough and not loader.stays and "workers" in _remedy(facts, loader)[1]
    gained_s = cores_s - max(0.0, left_s - facts.loop_s)
    if gained_s < WORTH * (facts.loop_s if both else facts.step_s):
        return
    removable_s = gained_s + (supply_s if both else 0.0)
    why = "its workers wait for them" if loader.workers else _LOADS_ITSELF
    low_s, high_s = _interval(facts, removable_s)
    yield Advice(
        word="cores",
        action="more_cpus",
        next=f"more CPUs{f', and {enough} workers' if both else ''}: {why}",
        cost=Cost.RESOURCE,
        removable_s=removable_s,
        low_s=low_s,
        high_s=high_s,
        value=cpus,
        workers=enough if both else None,
    )


def _wanted_cpus(facts: TrainingFacts, loader: WorkerFacts) -> int:
    """CPUs that keep up with the loop, of those that there are."""
    busy_s = loader.cpu_s + facts.main_cpu_s
    enough = ceil(busy_s / max(HEADROOM * facts.loop_s, 1e-9))
    most = min(facts.room_cores, MOST_TIMES * ceil(facts.cores))
    return int(min(most, max(ceil(facts.cores) + 1, enough)))


def _cheaper_samples(facts: TrainingFacts, removable_s: float) -> Advice:
    """Less work for the CPUs, as there are no more of them."""
    low_s, high_s = _interval(facts, removable_s)
    return Advice(
        word="data",
        action="cheaper_samples",
        next="cheaper samples, prepared once: every CPU there is works on them",
        cost=Cost.CODE,
        removable_s=removable_s,
        low_s=low_s,
        high_s=high_s,
    )


def _supply(
    facts: TrainingFacts, loader: WorkerFacts, short_s: float, burst_s: float
) -> Iterator[Advice]:
    """Sooner deliveries of workers that have cores to spare."""
    if short_s <= 0:
        return
    removable_s = short_s + burst_s
    low_s, high_s = _interval(facts, removable_s)
    word, action, clause, cost = _remedy(facts, loader)
    workers = needed_workers(facts, loader) if "workers" in action else None
    yield Advice(
        word=word,
        action=action,
        next=clause,
        cost=cost,
        removable_s=removable_s,
        low_s=low_s,
        high_s=high_s,
        value=workers,
    )


def _remedy(facts: TrainingFacts, loader: WorkerFacts) -> tuple[str, str, str, Cost]:
    """Word, action, clause and cost of what a lack of deliveries calls for."""
    if loader.workers == 0:
        clause = f"load in workers: {_LOADS_ITSELF}"
        return "data", "load_in_workers", clause, Cost.SETTING
    if _is_bandwidth(loader):
        clause = "a copy of its data on the node, or a cache: more readers do not help"
        return "storage", "local_copy", clause, Cost.CODE
    if not one_more_fits(facts, loader):
        clause = "more memory for the job, or smaller dataset objects: no more workers fit"
        return "memory", "more_memory", clause, Cost.RESOURCE
    if reads_storage(loader):
        clause = "more workers to read at once, or fewer and larger files: each read waits long"
        return "storage", "more_workers_to_read", clause, Cost.SETTING
    return "data", "more_workers", "more workers: its CPUs have time to spare", Cost.SETTING


def reads_storage(loader: WorkerFacts) -> bool:
    """Return True if workers mostly wait for what they read."""
    reads = loader.sample_bytes >= LEAST_READ
    return reads and loader.blocked_s >= BLOCKED * loader.alone_s


def _is_bandwidth(loader: WorkerFacts) -> bool:
    """Return True if more readers would share what storage gives: known, tried, or by size."""
    if loader.storage_s > loader.alone_s / loader.workers:
        return True
    large = loader.sample_bytes >= SMALL if loader.flat is None else loader.flat
    return large and reads_storage(loader)


def one_more_fits(facts: TrainingFacts, loader: WorkerFacts) -> bool:
    """Return True unless the memory of the job is known to hold no further worker."""
    if facts.mem_bytes is None or not loader.rss_bytes:
        return True
    return (loader.workers + 1) * loader.rss_bytes <= facts.mem_bytes


def has_slow_samples(loader: WorkerFacts) -> bool:
    """Return True if a few batches take far longer than most; busy cores do that to any."""
    if not loader.p50_s or not loader.p99_s or loader.queued_s > QUEUED * loader.wall_s:
        return False
    return loader.p99_s >= SLOW_RATIO * loader.p50_s


def _burst_s(facts: TrainingFacts, loader: WorkerFacts, short_s: float) -> float:
    """Seconds waited behind slow samples, beyond what mean costs explain."""
    if loader.workers == 0 or not has_slow_samples(loader):
        return 0.0
    mean_s = loader.wall_s / loader.workers - facts.loop_s
    return max(0.0, facts.wait_s - max(short_s, mean_s))


def _bursts(removable_s: float) -> Advice:
    """Batches made further ahead, or taken out of their order."""
    return Advice(
        word="samples",
        action="deeper_prefetch",
        next="deeper prefetching, or batches out of order where no result rests on their"
        " order: a few slow samples hold up the rest",
        removable_s=removable_s,
        value=8,
    )


def _interval(facts: TrainingFacts, removable_s: float) -> tuple[float | None, float | None]:
    """The 90 % interval by the figures' own spread; none where nobody knows it."""
    if facts.spread is None:
        return None, None
    wider = exp(1.645 * facts.spread)
    longest = facts.wait_s + facts.start_s
    interval_s = removable_s + facts.loop_s
    return (
        max(0.0, interval_s / wider - facts.loop_s),
        min(max(longest, removable_s), interval_s * wider - facts.loop_s),
    )
