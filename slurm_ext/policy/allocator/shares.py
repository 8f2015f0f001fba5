"""Each job's proportional share of what a node has: what Slurm gave it, and its part of the rest.

Pure. A node is seldom full: cores that Slurm has given to nobody are used by those who run, until
somebody else starts there.
"""

from collections.abc import Mapping

SPARE = 0.85  # of its CPUs: a job that uses more would use others' as well
LATENCY_WEIGHT, MAX_LATENCY_WEIGHT = 8.0, 64.0


def proportional(allocated: Mapping[str, int], units: int) -> dict[str, int]:
    """`units` in proportion to what Slurm gave, by job; nobody gets less than that.

    Whole units: the largest remainders are rounded up, equal ones in order of jobs. What was given
    is left as it is where it already fills the node, or more than that.
    """
    total = sum(allocated.values())
    if units <= total or total <= 0:
        return dict(allocated)
    shares = {job: count * units // total for job, count in allocated.items()}
    by_remainder = sorted(allocated, key=lambda job: (-(allocated[job] * units % total), job))
    for job in by_remainder[: units - sum(shares.values())]:
        shares[job] += 1
    return shares


def latency_weight(used: float) -> float:
    """Factor on the CPU weight of a job that uses this part of its CPUs; 1 for a busy one.

    A job that needs less than its share then gets its time slice as soon as it wakes: the less it
    needs, the sooner. It is limited to its share meanwhile, so no other job pays if it wants more.
    """
    return (
        1.0
        if used > SPARE
        else min(
            MAX_LATENCY_WEIGHT, LATENCY_WEIGHT / max(used, LATENCY_WEIGHT / MAX_LATENCY_WEIGHT)
        )
    )
