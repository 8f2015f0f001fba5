"""Division of GPUs among users before their jobs: nobody takes another's part. Pure.

What a job measured is its user's word, and a user may have as many jobs as he likes. So a user
whose jobs would be given more than an equal share gets that share, and the others divide what is
left, until nobody has more. What they leave is given back to him: no GPU idles for a rule. A user's
smallest job counts as a share, or it would wait for ever; limits of accounts and QOS on the sum of
his jobs always hold.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from slurm_ext.policy.elastic.gpu_division import Utility, least_size

Divide = Callable[[Sequence[Utility], int], dict[str, int]]
"""The optimiser: GPUs of each of these jobs, of so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserShares:
    """Users of the jobs that are divided."""

    user_of: Mapping[str, str]  # by job
    most: Mapping[str, int] = field(default_factory=dict)  # GPUs of a user; none: no limit
    held: Mapping[str, int] = field(default_factory=dict)  # by jobs that are not divided


def divided_among_users(
    divide: Divide, jobs: Sequence[Utility], gpus: int, sizes: Sequence[int], shares: UserShares
) -> dict[str, int]:
    """GPUs for each job that gets some; with one user and no limit, the optimiser's own."""
    waiting, capped = _by_user(jobs, shares), dict[str, list[Utility]]()
    division, left = dict[str, int](), gpus
    while waiting:
        wished = divide([job for own in waiting.values() for job in own], left)
        limits = _limits(waiting, left, sizes, shares)
        over = [user for user in waiting if _total(waiting[user], wished) > limits[user]]
        if not over:
            division |= wished
            left -= sum(wished.values())
            break
        for user in over:
            capped[user] = waiting.pop(user)
            given = divide(capped[user], max(0, min(limits[user], left)))
            division |= given
            left -= sum(given.values())
    return _with_rest(divide, capped, division, left, shares)


def _by_user(jobs: Sequence[Utility], shares: UserShares) -> dict[str, list[Utility]]:
    by_user = dict[str, list[Utility]]()
    for job in jobs:
        by_user.setdefault(shares.user_of[job.name], []).append(job)
    return by_user


def _limits(
    waiting: Mapping[str, Sequence[Utility]], left: int, sizes: Sequence[int], shares: UserShares
) -> dict[str, int]:
    """GPUs that each user's jobs may be given: an equal share of all that these users have."""
    held = {user: shares.held.get(user, 0) for user in waiting}
    share = -(-(left + sum(held.values())) // len(waiting))
    limits = {}
    for user, jobs in waiting.items():
        least = min((least_size(job, sizes) or 0 for job in jobs), default=0)
        limits[user] = min(_room(user, left, shares), max(least, share - held[user]))
    return limits


def _room(user: str, gpus: int, shares: UserShares) -> int:
    """Of so many GPUs, those that the limits of account and QOS let the user's jobs have."""
    most = shares.most.get(user)
    return gpus if most is None else max(0, min(gpus, most - shares.held.get(user, 0)))


def _with_rest(
    divide: Divide,
    capped: Mapping[str, Sequence[Utility]],
    division: Mapping[str, int],
    left: int,
    shares: UserShares,
) -> dict[str, int]:
    """The division with what nobody else wants, for those who had to stay below their wishes."""
    result = dict(division)
    for user, jobs in capped.items():
        had = _total(jobs, result)
        room = _room(user, had + left, shares)
        if room > had:
            again = divide(jobs, room)
            left -= sum(again.values()) - had
            result = {job: size for job, size in result.items() if job not in _names(jobs)} | again
    return result


def _total(jobs: Sequence[Utility], division: Mapping[str, int]) -> int:
    return sum(division.get(job.name, 0) for job in jobs)


def _names(jobs: Sequence[Utility]) -> set[str]:
    return {job.name for job in jobs}
