"""Sets of cores: Linux's lists (`0-3,8`), and which cores a job is to have. Pure."""

from collections.abc import Mapping, Set

MOST_CORES = 8192


def parse_cores(text: str) -> frozenset[int]:
    """The cores of a list such as `0-3,8`. Raises ValueError."""
    cores: set[int] = set()
    for item in filter(None, text.strip().split(",")):
        low, dash, high = item.partition("-")
        first, last = int(low), int(high if dash else low)
        if not 0 <= first <= last < MOST_CORES:
            raise ValueError(f"{text[:80]!r} is not a list of cores")
        cores.update(range(first, last + 1))
    return frozenset(cores)


def format_cores(cores: Set[int]) -> str:
    """The shortest list of `cores`."""
    runs: list[list[int]] = []
    for core in sorted(cores):
        if runs and core == runs[-1][1] + 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def assign_cores(
    wanted: Mapping[str, int],
    pool: frozenset[int],
    now: Mapping[str, frozenset[int]],
    home: Mapping[str, frozenset[int]],
) -> dict[str, frozenset[int]]:
    """So many cores of `pool` for each job: those it has, then its own by Slurm, then near ones.

    Nobody's core is anybody else's. Raises ValueError where the pool is too small.
    """
    if sum(wanted.values()) > len(pool):
        raise ValueError(f"{sum(wanted.values())} cores of {len(pool)}")
    kept = {
        job: _kept(count, now.get(job, frozenset()) & pool, home.get(job, frozenset()))
        for job, count in wanted.items()
    }
    free = pool - frozenset().union(*kept.values())
    for own_first in (True, False):
        for job in sorted(wanted):
            reach = free & home.get(job, frozenset()) if own_first else free
            more = _nearest(wanted[job] - len(kept[job]), reach, kept[job] or home.get(job, reach))
            kept[job] |= more
            free -= more
    return kept


def _kept(count: int, now: frozenset[int], home: frozenset[int]) -> frozenset[int]:
    """Of the cores it has, as many as it keeps: its own first, the lowest first."""
    ranked = sorted(now, key=lambda core: (core not in home, core))
    return frozenset(ranked[:count])


def _nearest(count: int, free: frozenset[int], to: frozenset[int]) -> frozenset[int]:
    """`count` cores of `free`, nearest by number to `to`: neighbours share caches and memory."""
    middle = sum(to) / len(to) if to else 0.0
    return frozenset(sorted(free, key=lambda core: (abs(core - middle), core))[: max(0, count)])
