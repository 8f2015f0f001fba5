"""Reasons to keep jobs apart: consent, users, memory, past slowdowns, the floor. Pure."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from slurm_ext.core.gpu_sharing import RelativeSpeed, SpeedBasis
from slurm_ext.policy.colocation.terms import Candidate, SharingRules


def why_apart(
    together: Sequence[Candidate], speeds: Mapping[str, RelativeSpeed], rules: SharingRules
) -> str | None:
    """The first rule that keeps these jobs apart, in one clause; None: they may share."""
    for candidate in together:
        alone = unwilling(candidate, rules)
        if alone is not None:
            return alone
    if len(together) > rules.most_together:
        return f"more than {rules.most_together} would be together"
    if rules.same_user and len({candidate.user for candidate in together}) > 1:
        return "they are of different users"
    if len({candidate.device for candidate in together}) > 1:
        return "they use different devices"
    why = went_badly(together, rules) or lacking(together, rules)
    return why or below(together, speeds, rules)


def floor_of(candidate: Candidate, rules: SharingRules) -> float:
    """The share of its solo speed that the job keeps."""
    return rules.floor if candidate.floor is None else candidate.floor


def counted_on(speed: RelativeSpeed, rules: SharingRules) -> float:
    """The speed that decides.

    Where sharing is our doing, the lower bound. Where jobs meet anyway, keeping them apart is our
    doing and costs half a node: there the mean, and unknown jobs count as harmless. The monitor
    (colocation_monitor.py) finds those that are slower than predicted.
    """
    if not rules.anyway:
        return speed.low
    return 1.0 if speed.evidence is SpeedBasis.PRIOR else speed.mean


def unwilling(candidate: Candidate, rules: SharingRules) -> str | None:
    """Reason why this job shares with nobody."""
    if not candidate.opted_in:
        return f"{candidate.job} has not agreed to share"
    return lacking([candidate], rules)


def meets(candidate: Candidate, other: Candidate, rules: SharingRules) -> bool:
    """True if these two could come together at all, by consent, device and user."""
    if not other.opted_in or other.device != candidate.device:
        return False
    return not rules.same_user or other.user == candidate.user


def went_badly(together: Sequence[Candidate], rules: SharingRules) -> str | None:
    """Reason if two of them were too slow together lately; runs of one key are a pair too."""
    for a, b in combinations(together, 2):
        if frozenset({a.solo.key, b.solo.key}) in rules.bad_pairs:
            return "they were below the floor together lately"
    return None


def lacking(together: Sequence[Candidate], rules: SharingRules) -> str | None:
    """The memory that they would lack; what is not known does not fit where a site has a limit."""
    on_gpu = together[0].device != "cpu"
    if rules.mem_bytes is not None:
        why = _fits([candidate.solo.mem_bytes for candidate in together], rules.mem_bytes, "memory")
        if why is not None:
            return why
    if on_gpu and rules.gpu_mem_bytes is not None:
        return _fits(
            [candidate.solo.gpu_mem_bytes for candidate in together],
            rules.gpu_mem_bytes,
            "GPU memory",
        )
    return None


def _fits(needs: Sequence[float | None], room: float, kind: str) -> str | None:
    sizes = [need for need in needs if need is not None]
    if len(sizes) < len(needs):
        return f"it is not known how much {kind} is needed"
    if sum(sizes) > room:
        return (
            f"{sum(sizes) / 2**30:.1f} GiB of {kind} are needed, {room / 2**30:.1f} GiB are there"
        )
    return None


def below(
    together: Sequence[Candidate], speeds: Mapping[str, RelativeSpeed], rules: SharingRules
) -> str | None:
    """Reason if one of them would be below its floor."""
    for candidate in together:
        low, floor = counted_on(speeds[candidate.job], rules), floor_of(candidate, rules)
        if not low >= floor:  # nan is below as well
            return (
                f"{candidate.job} may run at {low:.0%} of its speed alone, its floor is {floor:.0%}"
            )
    return None


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
    remaining = sorted(
        candidate.remaining_s for candidate in jobs if candidate.remaining_s is not None
    )
    return remaining[len(remaining) // 2] if remaining else UNKNOWN_S
