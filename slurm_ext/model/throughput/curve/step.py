"""The training step: its seconds and its rate on the cores that it has."""

from slurm_ext.model.throughput.curve.costs import Curve

# Two threads that have half of their cores each compute together a quarter of the time. With
# workers on both (contrib/bench/promises/training.py on two cores) a batch takes 39.8 and 40.0 ms
# of a step of 12.4 and a load of 32.5, by 2 and 3 workers, and 47.5 by one (45.9 without).
MOST_DELAYED = 4.0  # times as long


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


def step_rate(curve: Curve, workers: float, cores: float) -> float:
    """Samples/s of a loop that never lacks data, on the cores that its `workers` > 0 leave.

    At a rate of X they leave n = c - X * u; this is the X at which X * step(n) is 1. Threads that
    compute together wait for each other, so that what workers compute on their cores delays all.
    """
    m, fetch_s = curve.arithmetic, curve.worker_s[1]
    if curve.threads > 1:
        least_s = m.maximum(step_s(curve, cores), _delayed_s(curve, workers, cores))
        return m.where(cores < 1, cores / (curve.main_cpu_s + fetch_s), 1 / least_s)
    both_s = cores / curve.accel_samples_per_s + fetch_s
    root = m.sqrt(m.maximum(0.0, both_s**2 - 4 * fetch_s * cores / curve.accel_samples_per_s))
    return m.minimum(1 / step_s(curve, cores), 2 * cores / (both_s + root))


def _delayed_s(curve: Curve, workers: float, cores: float) -> float:
    """The step whose threads have workers on their cores, beyond those that threads leave free."""
    m, fetch_s, together = curve.arithmetic, curve.worker_s[1], together_s(curve)
    alone_s = 1 / curve.accel_samples_per_s - together / curve.threads
    all_s = together / m.maximum(1.0, m.minimum(cores, curve.threads))
    free = m.maximum(0.0, cores - curve.threads)
    by_one = (alone_s + all_s + fetch_s) / (1 + free)
    by_some = (3 * alone_s + MOST_DELAYED * all_s + 2 * fetch_s) / (3 + 2 * free)
    beside = m.maximum(0.0, workers - free)
    by_all = alone_s + all_s * MOST_DELAYED / 2 * beside / workers
    by_all += fetch_s / m.minimum(workers, m.maximum(1.0, cores))
    by_most = m.maximum(alone_s + MOST_DELAYED * all_s, by_all)
    return m.where(beside < 2, by_one, m.minimum(by_one, m.minimum(by_some, by_most)))
