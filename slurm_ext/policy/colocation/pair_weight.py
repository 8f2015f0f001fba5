"""Weight of a pair: seconds that its node is free earlier. Pure."""

from collections.abc import Mapping, Sequence

from slurm_ext.core.gpu_sharing import RelativeSpeed, SpeedBasis
from slurm_ext.policy.colocation.terms import Candidate

UNKNOWN_S = 3600.0  # remaining time where no job's is known


def saved_s(remaining_s: Sequence[float], speeds: Sequence[float]) -> float:
    """Seconds that a place is free earlier when two jobs share it than one after the other.

    When the first is done, the other has the place to itself again. Negative: sharing costs time.
    """
    ends = [left / speed for left, speed in zip(remaining_s, speeds, strict=True)]
    together = min(ends)
    left = sum(
        max(0.0, work - together * speed) for work, speed in zip(remaining_s, speeds, strict=True)
    )
    return sum(remaining_s) - together - left


def weight_of(
    a: Sequence[Candidate],
    b: Sequence[Candidate],
    speeds: Mapping[str, RelativeSpeed],
    typical_s: float,
) -> float:
    """Of two jobs; a newcomer to a larger group is weighed against the slowest of them."""
    (newcomer,) = a
    left = [_left_s(newcomer, typical_s), max(_left_s(candidate, typical_s) for candidate in b)]
    slowest = min(_counted(speeds[candidate.job]) for candidate in b)
    return saved_s(left, [_counted(speeds[newcomer.job]), slowest])


def _counted(speed: RelativeSpeed) -> float:
    """The lower bound; the mean of jobs in general, whose bound tells nothing of these."""
    return speed.mean if speed.evidence is SpeedBasis.PRIOR else speed.low


def _left_s(candidate: Candidate, typical_s: float) -> float:
    return typical_s if candidate.remaining_s is None else candidate.remaining_s


def typical(jobs: Sequence[Candidate]) -> float:
    """Remaining time assumed where it is unknown: the median of the known ones."""
    known = sorted(candidate.remaining_s for candidate in jobs if candidate.remaining_s is not None)
    return known[len(known) // 2] if known else UNKNOWN_S
