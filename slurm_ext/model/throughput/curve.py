"""The throughput curve of a data-loaded training: samples/s at any worker and core count.

A loader of w workers on c cores feeds an accelerator of rate G in batches of b samples. Fetching a
sample costs f seconds of wall time, u of them on a CPU; a worker adds SEND_S per batch and
SEND_S_PER_BYTE for writing it into shared memory; the training process takes m seconds of CPU for
a sample, and `receive_s` to receive a batch that is ready. Storage gives at most `io` samples/s:

    supply(w, c) = e * smooth-min(w / f', c / (u' + m))          f', u': all that a worker does
    A(w, c)      = 1 / (1/G + (receive + contention(w, c)) / b)       a loop that never lacks data
    X(w, c)      = smooth-min(A, supply, io)                          w > 0
    X(0, c)      = 1 / (1/G + f), at most c / u                       nothing overlaps

Each epoch of N samples starts its workers, and with empty queues: an accelerator at its limit waits
b * max(f', w * u' / c) seconds for its first batch. An epoch lasts N/X and these.

smooth-min(a, b, ...) = (a^-q + b^-q + ...)^(-1/q) is below its smallest term, so X <= G always.
Workers that never wait for anything but a CPU share the cores evenly, and the smaller of w / f and
c / u is what they deliver. Workers that also sleep ask for a core at random moments, and queue at
times although cores are idle at others: the nearer f is to u, the sharper the minimum.

Contention: a training process that wakes up and finds all cores at work waits for a worker's time
slice to end; that happens with a probability of r^(c + 1), r being the share of the cores in use.
Handing over a batch wakes a worker in addition. With every other core at work (always on a single
one) it takes the training process's own, unless it starts by sleeping. With fewer workers than
cores there is always one free. A fraction of a core is a quota on whole ones: it bounds what is
computed, and cores are as free within it as its whole ones are.

A step on CPUs (t = `threads` > 0) has no accelerator: its W = 1/G seconds, seen with t cores for
its threads, and its m seconds of CPU time follow Amdahl's law. What all threads compute together
is P = (m - W) * t / (t - 1), and with n of the cores it takes

    step(n) = W + P * (1/n - 1/t)        1 <= n <= t; below one core m / n; never faster beyond t

Its workers compute on the same cores, so n is what they leave of c, and X <= c / (u' + m): the
cores are never more than busy. That it waits for a busy core is in n, and is no contention. A step
on an accelerator keeps its own rate while the cores can pay for the process that feeds it: m / c.

Others on its cores: with d = `others` processes for each core that always want it, a job of k
processes that want a core gets c * k / (k + d * c) of its c cores, and what it computes takes as
much longer. k counts at most c: more workers than cores are no claim on a neighbour's share.

Every formula takes single figures, and with numpy as its `arithmetic` arrays of them: workers, all
above zero or the one figure 0, and cores.
"""

from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from slurm_ext.model.floats import FLOATS, Arithmetic

# From contrib/bench/curve (decoding, latency, both, large batches; 0.25 to 2 cores; torch 2.13):
# its error hardly moves for 8 to 24 and 2 to 4, and is smallest near these two.
STALLED = 0.10  # share of the time that the accelerator waits for data: worth an advice
SHARPNESS = 12.0  # prefetched batches hide nearly all of what varies from one to the next
SLEEPY_SHARPNESS = 2.0  # of workers that use next to no CPU
# Seconds, seen there in every setting.
SEND_S = 0.0003  # that a worker spends on a batch outside fetching it
SEND_S_PER_BYTE = 0.6e-9  # fresh pages of shared memory
RECEIVE_S = 0.0010  # that the training process spends on a batch that is ready
FREE_S_PER_BYTE = 0.16e-9  # giving its pages back, at the beginning of the next step
START_S = 0.030  # that a pass over the data waits for new workers to run, and for their end
START_S_PER_WORKER = 0.005
SLICE_S = 0.003  # that a woken process waits for a busy core (Linux 6.18, EEVDF)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One training's costs; rates in samples/s, costs in seconds per sample."""

    accel_samples_per_s: float
    fetch_wall_s: float  # in the training process, when no other process wants the CPU
    fetch_cpu_s: float
    main_cpu_s: float = 0.0
    storage_samples_per_s: float = inf
    efficiency: float = 1.0
    receive_s: float = 0.0  # for a batch
    slice_s: float = SLICE_S
    batch_size: float = 0.0  # 0: unknown, and nothing that is paid for a batch is counted
    sample_bytes: float = 0.0
    epoch_samples: float = inf
    threads: float = 0.0  # cores that the step's threads had; 0: the step is an accelerator's
    arithmetic: Arithmetic = field(
        default=FLOATS, repr=False, compare=False
    )  # or numpy, for arrays
    # Wall and CPU seconds of a worker for one sample, sending it included: every point needs them.
    worker_s: tuple[float, float] = field(init=False, repr=False, compare=False)
    sharpness: float = field(init=False, repr=False, compare=False)  # between workers and cores

    def __post_init__(self) -> None:
        """Compute once what every point needs."""
        extra_s = sending_s(self.batch_size, self.sample_bytes)
        wall_s, cpu_s = self.fetch_wall_s + extra_s, self.fetch_cpu_s + extra_s
        m = self.arithmetic
        sleeping = m.maximum(1 - m.minimum(1.0, cpu_s / wall_s), 1e-6)
        object.__setattr__(self, "worker_s", (wall_s, cpu_s))
        sharpness = m.minimum(SHARPNESS, SLEEPY_SHARPNESS / sleeping)
        object.__setattr__(self, "sharpness", sharpness)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The curve at one worker and core count, with each ceiling's part in it.

    CrowdedShares are d log X / d log ceiling, and add up to 1.
    """

    samples_per_s: float
    supply_samples_per_s: float  # what the workers would deliver to an accelerator without end
    accelerator: float
    wall: float
    cpu: float
    storage: float
    contention: float = 0.0  # the part of the loop's time that is waiting for a busy core
    in_turns: bool = False  # loading and training never overlap
    on_cpu: bool = False  # the accelerator's part is that of a step on CPUs

    @property
    def stalled(self) -> float:
        """The share of the time in which the accelerator waits for data."""
        return 1 - self.accelerator ** (1 if self.in_turns else 1 / SHARPNESS)

    @property
    def limit(self) -> str:
        """The ceiling that binds: accelerator, step, storage or data (core/advice/words.py)."""
        if self.stalled < STALLED:
            return "step" if self.on_cpu else "accelerator"
        return "storage" if self.storage > self.wall + self.cpu else "data"


def at_beside(
    curve: Curve, others: float, workers: float, cores: float, *, claims: bool = False
) -> Point:
    """The same where `others` processes for each core always want it.

    `claims`: each process of its own counts, beyond the cores too, as the kernel counts them.
    """
    wanted = max(1.0, curve.threads)  # cores that its processes want, were they all at work
    wanted += workers * min(1.0, curve.fetch_cpu_s / curve.fetch_wall_s)
    most = wanted if claims else curve.arithmetic.minimum(cores, wanted)
    return at(*_beside_others(curve, others * cores, most, workers, cores))


def at(curve: Curve, workers: float, cores: float) -> Point:
    """The curve at `workers` > 0 workers, or 0 for loading in the training process itself."""
    if is_serial(workers):
        return _serial(curve, cores)
    m, stored = curve.arithmetic, curve.storage_samples_per_s
    supply, wall, cpu = _supply(curve, workers, cores)
    rate = _step_rate(curve, cores) if curve.threads else curve.accel_samples_per_s
    step_s = 1 / rate + FREE_S_PER_BYTE * curve.sample_bytes
    step_s += curve.receive_s / curve.batch_size if curve.batch_size else 0.0
    rate, accelerator, loader, storage = _smooth_min(m, SHARPNESS, 1 / step_s, supply, stored)
    held_s = 0.0
    if curve.batch_size and not curve.threads:
        # A loop that lacks data waits for cores while it would wait anyway.
        held_s = accelerator * contention_s(curve, rate, workers, cores) / curve.batch_size
    if m is not FLOATS or held_s:
        least = 1 / (step_s + held_s)
        rate, accelerator, loader, storage = _smooth_min(m, SHARPNESS, least, supply, stored)
    if curve.threads:
        rate = m.minimum(rate, cores / (curve.worker_s[1] + curve.main_cpu_s))
    return Point(
        samples_per_s=1
        / (1 / rate + pass_s(curve, workers, cores, accelerator) / curve.epoch_samples),
        supply_samples_per_s=supply,
        accelerator=accelerator,
        wall=loader * wall,
        cpu=loader * cpu,
        storage=storage,
        contention=accelerator * held_s / (step_s + held_s),
        on_cpu=curve.threads > 0,
    )


def _beside_others(
    curve: Curve, theirs: float, wanted: float, workers: float, cores: float
) -> tuple[Curve, float, float]:
    """The curve as slow as other jobs' processes make it, the workers, and the cores left."""
    m, alone_s = curve.arithmetic, step_s(curve, cores)
    slower = m.maximum(0.0, (wanted + theirs) / cores - 1)
    waits_s = slower * (alone_s if curve.threads else m.minimum(alone_s, curve.main_cpu_s))
    slowed = replace(
        curve,
        accel_samples_per_s=m.where(slower > 0, 1 / (alone_s + waits_s), curve.accel_samples_per_s),
        fetch_wall_s=curve.fetch_wall_s + slower * min(curve.fetch_cpu_s, curve.fetch_wall_s),
    )
    if is_serial(workers):
        return slowed, workers, cores
    return slowed, workers, m.where(slower > 0, wanted / (1 + slower), cores)


def is_serial(workers: float) -> bool:
    """True for no workers; a search asks for many counts at once above zero only."""
    return isinstance(workers, int | float) and workers <= 0


def step_s(curve: Curve, cores: float) -> float:
    """Seconds of the step for one sample where `cores` cores are free for it."""
    m, seen_s = curve.arithmetic, 1 / curve.accel_samples_per_s
    alone_s = m.maximum(seen_s, curve.main_cpu_s / cores)
    if not curve.threads:
        return alone_s
    fewer_s = together_s(curve) * (1 / m.minimum(cores, curve.threads) - 1 / curve.threads)
    return m.where(cores < 1, alone_s, seen_s + fewer_s)


def together_s(curve: Curve) -> float:
    """CPU seconds of the step for one sample that all its threads compute together."""
    if curve.threads <= 1:
        return 0.0
    m, share = curve.arithmetic, curve.threads / (curve.threads - 1)
    apart_s = m.maximum(0.0, curve.main_cpu_s - 1 / curve.accel_samples_per_s)
    return m.minimum(apart_s * share, curve.threads / curve.accel_samples_per_s)


def _step_rate(curve: Curve, cores: float) -> float:
    """Samples/s of a loop that never lacks data, on the cores that its workers leave.

    At a rate of X they leave n = c - X * u; this is the X at which X * step(n) is 1.
    """
    m, fetch_s, together = curve.arithmetic, curve.worker_s[1], together_s(curve)
    alone_s = 1 / curve.accel_samples_per_s - together / curve.threads
    both_s = alone_s * cores + together + fetch_s
    root = m.sqrt(m.maximum(0.0, both_s**2 - 4 * alone_s * fetch_s * cores))
    return m.minimum(1 / step_s(curve, cores), 2 * cores / (both_s + root))


def _supply(curve: Curve, workers: float, cores: float) -> tuple[float, float, float]:
    """Samples/s that the workers deliver, and the shares of their number and the cores in it."""
    wall_s, cpu_s = curve.worker_s
    all_cpu_s = cpu_s + (0.0 if curve.threads else curve.main_cpu_s)
    by_cpu = cores / all_cpu_s if all_cpu_s > 0 else inf
    m = curve.arithmetic
    supply, by_wall, by_cpu, _ = _smooth_min(m, curve.sharpness, workers / wall_s, by_cpu)
    return supply * curve.efficiency, by_wall, by_cpu


def sending_s(batch_size: float, sample_bytes: float) -> float:
    """Seconds for one sample that a worker adds to fetching it in the training process."""
    return SEND_S / batch_size + SEND_S_PER_BYTE * sample_bytes if batch_size else 0.0


def contention_s(curve: Curve, rate: float, workers: float, cores: float) -> float:
    """Seconds that the training process waits for busy cores in each batch, at `rate` samples/s."""
    if curve.threads:
        return 0.0
    m, (wall_s, cpu_s) = curve.arithmetic, curve.worker_s
    whole = m.maximum(1, m.ceil(cores))
    if m is FLOATS and workers < whole:
        return 0.0
    all_busy = m.minimum(1.0, rate * (cpu_s + curve.main_cpu_s) / whole) ** (whole + 1)
    others_busy = m.where(whole > 1, all_busy, 1.0)
    burst = min(1.0, curve.batch_size * cpu_s / SLICE_S) * m.minimum(1.0, cpu_s / wall_s) ** 2
    held_s = curve.slice_s * (1 - (1 - all_busy) * (1 - burst * others_busy))
    return m.where(workers < whole, 0.0, held_s)


def pass_s(curve: Curve, workers: float, cores: float, accelerator: float) -> float:
    """Seconds that a pass over the data takes beside its batches.

    `accelerator`: its share in the bottleneck. Where it is all, it waits for the first batch; where
    it is nothing, the workers are at work all the time. They began together and so end together:
    the steps of their last batches, one of each, come after them.
    """
    if not curve.batch_size or is_serial(workers):
        return 0.0
    m, (wall_s, cpu_s) = curve.arithmetic, curve.worker_s
    first_s = curve.batch_size * m.maximum(wall_s, workers * cpu_s / cores)
    last_s = m.minimum(first_s, workers * curve.batch_size / curve.accel_samples_per_s)
    ends_s = accelerator * first_s + (1 - accelerator) * last_s
    return START_S + START_S_PER_WORKER * workers + ends_s


def _smooth_min(
    m: Arithmetic, sharpness: float, one: float, other: float, third: float = inf
) -> tuple[float, float, float, float]:
    """The smooth minimum, and each ceiling's share in it; `third` is one figure."""
    lowest = m.minimum(m.minimum(one, other), third)
    # Relative to the lowest, so that no power overflows whatever the units are.
    first = _power(lowest / one, sharpness)
    second = _power(lowest / other, sharpness)
    last = _power(lowest / third, sharpness) if third < inf else 0.0
    total = first + second + last
    return lowest * total ** (-1 / sharpness), first / total, second / total, last / total


def _power(share: Any, sharpness: float) -> Any:
    """The share to this power; most are SHARPNESS, and five products cost arrays a fifth."""
    if sharpness is not SHARPNESS:
        return share**sharpness
    cubed = share * share * share
    return (cubed * cubed) * (cubed * cubed)


def _serial(curve: Curve, cores: float) -> Point:
    m, step = curve.arithmetic, step_s(curve, cores)
    fetch = m.maximum(curve.fetch_wall_s, 1 / curve.storage_samples_per_s)
    both = step + fetch
    by_cpu = inf
    if curve.fetch_cpu_s > 0:
        by_cpu = m.where(cores < 1, cores / curve.fetch_cpu_s, inf)
    rate, turns, cpu, _ = _smooth_min(m, SHARPNESS, 1 / both, by_cpu)
    if curve.threads:
        rate = m.minimum(rate, cores / (curve.fetch_cpu_s + curve.main_cpu_s))
    return Point(
        samples_per_s=rate,
        supply_samples_per_s=1 / fetch,
        accelerator=turns * step / both,
        wall=turns * fetch / both,
        cpu=cpu,
        storage=0.0,
        in_turns=True,
        on_cpu=curve.threads > 0,
    )
