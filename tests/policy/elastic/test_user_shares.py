"""GPUs are divided among users first: no user takes what another one wants."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from slurm_ext.policy.elastic.gpu_division import DivisionTerms, Utility, allot
from slurm_ext.policy.elastic.user_shares import UserShares, divided_among_users

SIZES = (1, 2, 4, 8)
TERMS = DivisionTerms(restart_s=0.0, gpus_a_job=0.0)


def job(name: str, scales: float = 1.0, sizes: Sequence[int] = SIZES) -> Utility:
    """A job whose goodput grows with the GPUs to this power."""
    goodput = [float(size**scales) if size in sizes else 0.0 for size in SIZES]
    return Utility(name=name, goodput=np.array(goodput), held=0, left=100.0)


def divide(jobs: Sequence[Utility], gpus: int) -> dict[str, int]:
    """The exact programme."""
    return allot(jobs, SIZES, gpus, TERMS)


def given(gpus: int, users: Mapping[str, Sequence[Utility]], **shares: dict[str, int]) -> list[int]:
    """GPUs of each user."""
    jobs = [one for own in users.values() for one in own]
    user_of = {one.name: user for user, own in users.items() for one in own}
    share = UserShares(user_of=user_of, **shares)
    division = divided_among_users(divide, jobs, gpus, SIZES, share)
    assert sum(division.values()) <= gpus
    return [sum(division.get(one.name, 0) for one in own) for own in users.values()]


def test_one_user_alone_has_the_optimisers_division() -> None:
    """However many jobs there are."""
    jobs = [job("a", 0.9), job("b", 0.2), job("c")]
    share = UserShares(user_of=dict.fromkeys("abc", "ada"))
    assert divided_among_users(divide, jobs, 8, SIZES, share) == divide(jobs, 8)


def test_what_jobs_report_takes_no_other_users_share() -> None:
    """Jobs that say they gain by every GPU, and many of them, against one that hardly gains."""
    honest = [job("h", 0.8)]
    assert given(8, {"eve": [job("e", 1.0)], "ada": honest}) == [4, 4]
    many = [job(f"e{number}", 1.0) for number in range(7)]
    assert sum(divide([*many, *honest], 8).values()) == 8
    assert divide([*many, *honest], 8)["h"] == 1
    assert given(8, {"eve": many, "ada": honest}) == [4, 4]


def test_what_others_leave_is_used() -> None:
    """No GPU idles: who wants less than a share leaves the rest to whoever can use it."""
    small = [job("s", sizes=(1,))]
    assert given(8, {"eve": [job(f"e{n}") for n in range(7)], "ada": small}) == [7, 1]
    assert given(8, {"ada": small, "eve": [job("e1", sizes=(1, 2, 4))]}) == [1, 4]


def test_the_smallest_job_of_a_user_counts_as_a_share() -> None:
    """With four users on eight GPUs, one whose only job needs four of them is not left out."""
    users = {"ada": [job("a", sizes=(4, 8))], **{u: [job(u, sizes=(1,))] for u in ("b", "c", "d")}}
    assert given(8, users) == [4, 1, 1, 1]


@pytest.mark.parametrize(("most", "held", "gpus"), [(2, 0, 2), (3, 1, 2), (2, 2, 0), (9, 0, 8)])
def test_limits_on_the_sum_of_a_users_jobs_hold(most: int, held: int, gpus: int) -> None:
    """Even where nobody else wants anything; his jobs that are not divided count."""
    jobs = {"eve": [job(f"e{n}") for n in range(4)]}
    assert given(8, jobs, most={"eve": most}, held={"eve": held}) == [gpus]


def test_jobs_that_are_not_divided_count_as_their_users_share() -> None:
    """Eve's job that keeps five GPUs leaves her other one less than Ada's."""
    users = {"eve": [job("e")], "ada": [job("a")]}
    assert given(5, users) == [2, 2]
    assert given(5, users, held={"eve": 5}) == [1, 4]
