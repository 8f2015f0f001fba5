"""Memory of a shared GPU: for as many jobs as may be on it, and for one under MPS's limit."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from slurm_ext.advisor.sharing.terms import SharingDecision
from slurm_ext.core.gpu_sharing import RelativeSpeed, SoloProfile, SpeedBasis
from tests.advisor.sharing.test_sharing import ADAS, GIB, POOL, RULES, SNAPSHOT, memory, thought


class Kind:
    """Any number of jobs leave each other 96 %."""

    def speed(
        self, job: SoloProfile, beside: Sequence[SoloProfile], device: str = "cpu"
    ) -> RelativeSpeed:
        """As the class says."""
        return RelativeSpeed(mean=0.96, low=0.9, high=1.0, evidence=SpeedBasis.PAIR, runs=3)


def found(mine_gib: float, *, shares: int = 100, beside: bool = True, **values: Any) -> Any:
    """The decision on a job of that size on a GPU of 16 GiB, beside one of 4 GiB."""
    mine = SoloProfile(key="mine", gpu_mem_bytes=mine_gib * GIB)
    known = replace(SNAPSHOT, slowdowns=Kind(), solos={**SNAPSHOT.solos, "mine": mine})
    kinds = {"mps": shares, "shard": 4}
    rules = replace(RULES, pools={"gpu": replace(POOL, shares=kinds)})
    held = memory(*((ADAS,) if beside else ()), snapshot=known)
    decision = thought(held, rules=rules, values=values)
    assert isinstance(decision, SharingDecision)
    return decision


ACT: dict[str, Any] = {"mps__mode": "act"}


@pytest.mark.parametrize(
    ("mine_gib", "values", "shares"),
    [
        (9.0, {}, True),
        (9.0, ACT, False),
        (7.6, ACT, True),
        (7.7, ACT, False),
        (7.7, {**ACT, "mps__memory_share": 1.0}, True),
        (9.0, {**ACT, "mps__memory_share": 0.0}, True),
        (0.0, ACT, True),
    ],
)
def test_a_job_shares_only_if_the_part_that_mps_lets_it_have_is_enough(
    mine_gib: float, values: dict[str, Any], shares: bool
) -> None:
    """A job that fits beside its neighbour keeps the GPU where MPS's own limit would end it."""
    made = found(mine_gib, **values)
    assert made.share is shares
    if not shares:
        assert made.why == f"it needs {mine_gib} GiB of GPU memory, MPS lets it have 7.6 GiB"
        assert (made.gres, made.beside) == (None, "kind")


def test_a_shard_has_no_limit_of_memory() -> None:
    """Slurm gives the prolog no share of a shard, so MPS sets none: only the sum counts."""
    values: dict[str, Any] = {**ACT, "mps__jobs": "all", "sharing__gres": "shard"}
    assert found(9.0, beside=False, **values).share is False
    assert found(7.9, beside=False, **values).share is True


def test_the_limit_goes_by_the_shares_that_the_job_really_gets() -> None:
    """One of three shares is 33 %, whatever `most_together` is."""
    assert found(5.0, shares=3, **ACT).share is True
    made = found(5.1, shares=3, **ACT)
    assert (made.share, made.why[-7:]) == (False, "5.0 GiB")


@pytest.mark.parametrize(
    ("mine_gib", "together", "beside", "shares"),
    [
        (6.0, 2, False, True),
        (6.0, 3, False, False),
        (5.0, 3, False, True),
        (8.0, 3, True, True),
        (8.5, 3, True, False),
        (8.5, 2, True, True),
    ],
)
def test_the_memory_of_as_many_as_may_share_is_judged(
    mine_gib: float, together: int, beside: bool, shares: bool
) -> None:
    """Slurm puts `most_together` jobs on a GPU: all of them fit, its twins or its neighbours."""
    made = found(mine_gib, beside=beside, sharing__most_together=together)
    assert made.share is shares
    assert shares or "GPU memory are needed" in made.why
