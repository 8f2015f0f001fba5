"""The core and worker counts that a loader policy may choose from, within a job's limits."""

from functools import lru_cache

from slurm_ext.core.records import ShapeLimits

EVERY_UP_TO = 16  # then in steps of an eighth: nobody feels 65 workers against 64
STEPS_A_DOUBLING = 4


@lru_cache(maxsize=1024)
def core_counts(written: int, limits: ShapeLimits, may_change: str) -> tuple[int, ...]:
    """Core counts, ascending; empty where nothing fits. `may_change`: never | grow | any."""
    most = min(limits.max_cpus_per_task, limits.node_cores)
    if may_change == "never":
        return (written,)
    if may_change == "any":
        return counts(1, most)
    return (written, *counts(written + 1, most))


@lru_cache(maxsize=1024)
def worker_counts(most: int) -> tuple[int, ...]:
    """0 (load in the training process) up to `most`."""
    return (0, *counts(1, most))


def counts(low: int, high: int) -> tuple[int, ...]:
    """Every count up to EVERY_UP_TO, then STEPS_A_DOUBLING a doubling, `high` itself always."""
    chosen = list(range(low, min(high, EVERY_UP_TO) + 1))
    base = EVERY_UP_TO
    while base < high:
        step = base // STEPS_A_DOUBLING
        chosen += [n for n in range(base + step, 2 * base + 1, step) if low <= n < high]
        base *= 2
    if high >= low and (not chosen or chosen[-1] != high):
        chosen.append(high)
    return tuple(chosen)
