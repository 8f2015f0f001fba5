"""The training step: its seconds and its rate on the cores that it has."""

from slurm_ext.model.throughput.curve.costs import Curve


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


def step_rate(curve: Curve, cores: float) -> float:
    """Samples/s of a loop that never lacks data, on the cores that its workers leave.

    At a rate of X they leave n = c - X * u; this is the X at which X * step(n) is 1.
    """
    m, fetch_s, together = curve.arithmetic, curve.worker_s[1], together_s(curve)
    alone_s = 1 / curve.accel_samples_per_s - together / curve.threads
    both_s = alone_s * cores + together + fetch_s
    root = m.sqrt(m.maximum(0.0, both_s**2 - 4 * alone_s * fetch_s * cores))
    return m.minimum(1 / step_s(curve, cores), 2 * cores / (both_s + root))
