"""Reasons to keep jobs apart: consent, users, memory, past slowdowns, the floor. Pure."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from slurm_ext.core.gpu_sharing import RelativeSpeed, SpeedBasis
from slurm_ext.policy.colocation.terms import Candidate, SharingRules


def why_apart(
    together: Sequence[Candidate], speeds: Mapping[str, RelativeSpeed], rules: SharingRules
) -> str | None:
    """The first rule that keeps these jobs apart, in one clause; None: they may share."""
    for one in together:
        alone = unwilling(one, rules)
        if alone is not None:
            return alone
    if len(together) > rules.most_together:
        return f"more than {rules.most_together} would be together"
    if rules.same_user and len({one.user for one in together}) > 1:
        return "they are of different users"
    if len({one.device for one in together}) > 1:
        return "they use different devices"
    why = went_badly(together, rules) or lacking(together, rules)
    return why or below(together, speeds, rules)


def floor_of(one: Candidate, rules: SharingRules) -> float:
    """The share of its solo speed that the job keeps."""
    return rules.floor if one.floor is None else one.floor


def counted_on(speed: RelativeSpeed, rules: SharingRules) -> float:
    """The speed that decides.

    Where sharing is our doing, the lower bound. Where jobs meet anyway, parting them is our doing
    and costs half a node: there the mean, and of the unknown nothing bad is assumed. The watch
    (companions.py) finds whoever was hoped too much of.
    """
    if not rules.anyway:
        return speed.low
    return 1.0 if speed.evidence is SpeedBasis.PRIOR else speed.mean


def unwilling(one: Candidate, rules: SharingRules) -> str | None:
    """Reason why this job shares with nobody."""
    if not one.opted_in:
        return f"{one.job} has not agreed to share"
    return lacking([one], rules)


def meets(one: Candidate, other: Candidate, rules: SharingRules) -> bool:
    """True if these two could come together at all, by consent, device and user."""
    if not other.opted_in or other.device != one.device:
        return False
    return not rules.same_user or other.user == one.user


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
        why = _fits([one.solo.mem_bytes for one in together], rules.mem_bytes, "memory")
        if why is not None:
            return why
    if on_gpu and rules.gpu_mem_bytes is not None:
        return _fits(
            [one.solo.gpu_mem_bytes for one in together], rules.gpu_mem_bytes, "GPU memory"
        )
    return None


def _fits(needs: Sequence[float | None], room: float, what: str) -> str | None:
    known = [need for need in needs if need is not None]
    if len(known) < len(needs):
        return f"it is not known how much {what} is needed"
    if sum(known) > room:
        return (
            f"{sum(known) / 2**30:.1f} GiB of {what} are needed, {room / 2**30:.1f} GiB are there"
        )
    return None


def below(
    together: Sequence[Candidate], speeds: Mapping[str, RelativeSpeed], rules: SharingRules
) -> str | None:
    """Reason if one of them would be below its floor."""
    for one in together:
        low, floor = counted_on(speeds[one.job], rules), floor_of(one, rules)
        if not low >= floor:  # nan is below as well
            return f"{one.job} may run at {low:.0%} of its speed alone, its floor is {floor:.0%}"
    return None
