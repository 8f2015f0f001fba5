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
b * max(f', w * u' / c) seconds for its first batch. An epoch lasts N/X and these. Of workers beyond
its N / b batches none ever gets one.

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

Its workers compute on the same cores, and X <= c / (u' + m): the cores are never more than busy.
One thread has what they leave of c. Several threads wait for each other: while a worker computes on
the core of one of them, it and that thread have half of the core each, and all are half as fast. So
one sample takes the step's seconds and u', as if nothing overlapped; with workers on more of their
cores at once, a quarter of the speed is left, and the workers go on together:

    1/A = step + u'                                                              t >= c, one worker
    1/A = min(step + u', (4 step + 2 u') / 3, max(4 step, 2 step + u' / min(w, c)))    t >= c, w > 1

Cores beyond the threads' are the workers' first. That a step waits for a busy core is in this, and
is no contention. A step on an accelerator keeps its own rate while the cores can pay for the
process that feeds it: m / c.

Others on its cores: with d = `others` processes for each core that always want it, a job of k
processes that want a core gets c * k / (k + d * c) of its c cores, and what it computes takes as
much longer; what several threads compute together, the square of that, because all need a core at
once. k counts at most c: more workers than cores are no claim on a neighbour's share.

Every formula takes single figures, and with numpy as its `arithmetic` arrays of them: workers, all
above zero or the one figure 0, and cores.
"""

from math import inf

from slurm_ext.model.floats import FLOATS
from slurm_ext.model.throughput.curve.costs import FREE_S_PER_BYTE, SHARPNESS, Curve, is_serial
from slurm_ext.model.throughput.curve.point import Point
from slurm_ext.model.throughput.curve.smooth_min import smooth_min
from slurm_ext.model.throughput.curve.step import step_rate, step_s
from slurm_ext.model.throughput.curve.waits import contention_s, pass_s


def at(curve: Curve, workers: float, cores: float) -> Point:
    """The curve at `workers` > 0 workers, or 0 for loading in the training process itself."""
    if is_serial(workers):
        return _serial(curve, cores)
    m, stored = curve.arithmetic, curve.storage_samples_per_s
    supply, wall, cpu = _supply(curve, workers, cores)
    rate = step_rate(curve, workers, cores) if curve.threads else curve.accel_samples_per_s
    step_s = 1 / rate + FREE_S_PER_BYTE * curve.sample_bytes
    step_s += curve.receive_s / curve.batch_size if curve.batch_size else 0.0
    rate, accelerator, loader, storage = smooth_min(m, SHARPNESS, 1 / step_s, supply, stored)
    held_s = 0.0
    if curve.batch_size and not curve.threads:
        # A loop that lacks data waits for cores while it would wait anyway.
        held_s = accelerator * contention_s(curve, rate, workers, cores) / curve.batch_size
    if m is not FLOATS or held_s:
        least = 1 / (step_s + held_s)
        rate, accelerator, loader, storage = smooth_min(m, SHARPNESS, least, supply, stored)
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


def _supply(curve: Curve, workers: float, cores: float) -> tuple[float, float, float]:
    """Samples/s that the workers deliver, and the shares of their number and the cores in it."""
    wall_s, cpu_s = curve.worker_s
    all_cpu_s = cpu_s + (0.0 if curve.threads else curve.main_cpu_s)
    by_cpu = cores / all_cpu_s if all_cpu_s > 0 else inf
    m, at_work = curve.arithmetic, workers
    if curve.batch_size:
        at_work = m.minimum(workers, m.maximum(1.0, curve.epoch_samples / curve.batch_size))
    supply, by_wall, by_cpu, _ = smooth_min(m, curve.sharpness, at_work / wall_s, by_cpu)
    return supply * curve.efficiency, by_wall, by_cpu


def _serial(curve: Curve, cores: float) -> Point:
    m, step = curve.arithmetic, step_s(curve, cores)
    fetch = m.maximum(curve.fetch_wall_s, 1 / curve.storage_samples_per_s)
    both = step + fetch
    by_cpu = inf
    if curve.fetch_cpu_s > 0:
        by_cpu = m.where(cores < 1, cores / curve.fetch_cpu_s, inf)
    rate, turns, cpu, _ = smooth_min(m, SHARPNESS, 1 / both, by_cpu)
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
