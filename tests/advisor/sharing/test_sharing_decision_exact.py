"""The decision to share a GPU: every reason, every edge of count, and every field."""

from dataclasses import replace
from typing import Any

import pytest

from slurm_ext.advisor.limits.gpu_pools import GpuPool
from slurm_ext.advisor.sharing.context import (
    SharingContext,
)
from slurm_ext.advisor.sharing.decide_sharing import MOST_PARTNERS, decide_sharing
from slurm_ext.advisor.sharing.gpu_request import whole_gpu_request
from slurm_ext.advisor.sharing.gpu_sharers import (
    SharedGpuQueue,
)
from slurm_ext.core.gpu_sharing import RelativeSpeed, SoloProfile, SpeedBasis
from slurm_ext.core.records import Edits, Mode
from slurm_ext.slurm import JobAllowance
from tests.advisor.sharing.test_sharing import (
    ADAS,
    GIB,
    NOW,
    POOL,
    RULES,
    SNAPSHOT,
    SOLOS,
    job,
    settings,
    why,
)


@pytest.mark.parametrize(
    ("pool", "values", "reason"),
    [
        (None, {}, "the limits of its partition or account are not known"),
        (replace(POOL, refused={"mps": "so it is"}), {}, "so it is"),
        (replace(POOL, shares={}), {}, "one GPU is fewer mps than jobs may be on it"),
        (
            replace(POOL, shares={"mps": 2}),
            {"sharing__most_together": 3},
            "one GPU is fewer mps than jobs may be on it",
        ),
        (
            POOL,
            {"sharing__gres": "shard"},
            "one GPU is fewer shard than jobs may be on it",
        ),
        (
            replace(POOL, gpu_types=frozenset({"a", "b"})),
            {},
            "its partition has several kinds of GPU",
        ),
    ],
)
def test_a_pool_that_offers_no_part(
    pool: GpuPool | None, values: dict[str, Any], reason: str
) -> None:
    """One clause each."""
    assert why(rules=replace(RULES, pools={"gpu": pool} if pool else {}), values=values) == reason


def context(**values: Any) -> SharingContext:
    """Everything known, and nobody else there."""
    plain: dict[str, Any] = {
        "settings": settings(),
        "now_s": NOW,
        "pool": POOL,
        "allowance": JobAllowance(),
        "pools": {"gpu": POOL},
        "queue": SharedGpuQueue(at_s=NOW),
        "snapshot": SNAPSHOT,
    }
    return SharingContext(**{**plain, **values})


def decided(context_: SharingContext, key: str | None = "mine", **fields: Any) -> Any:
    """The decision on ada's job."""
    one = job(**fields)
    return decide_sharing(one, whole_gpu_request(one), key, context_)


@pytest.mark.parametrize(
    ("allowance", "kind", "reason"),
    [
        ({"max_mps": 0}, "mps", "a limit of its account or QOS on GPUs allows no mps"),
        ({"max_mps": 49}, "mps", "a limit of its account or QOS on GPUs allows 49 mps"),
        ({"max_mps": 50}, "mps", None),
        ({"max_shard": 0}, "mps", None),
        ({"max_mps": 0}, "shard", None),
        ({"max_shard": 1}, "shard", "a limit of its account or QOS on GPUs allows 1 shard"),
        ({"max_shard": 2}, "shard", None),
    ],
)
def test_a_limit_on_parts_of_gpus(allowance: dict[str, Any], kind: str, reason: str | None) -> None:
    """Of this kind; as many as there may be are allowed."""
    pool = replace(POOL, shares={"mps": 100, "shard": 4})
    made = decided(
        context(
            allowance=JobAllowance(**allowance), pool=pool, settings=settings(sharing__gres=kind)
        )
    )
    assert (made.share, made.why == reason) == (reason is None, reason is not None)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"allowance": None}, "the limits of its partition or account are not known"),
        ({"pool": None}, "the limits of its partition or account are not known"),
        ({"snapshot": None}, "how it does beside others is not known yet"),
        (
            {"settings": settings(sharing__gpu_mem_mib=0)},
            "how much memory its GPU has is not told (sharing.gpu_mem_mib)",
        ),
        ({"queue": SharedGpuQueue()}, "who shares at the moment is not known"),
        ({"queue": SharedGpuQueue(at_s=NOW - 90.5)}, "who shares at the moment is not known"),
    ],
)
def test_what_is_unknown_has_its_name(changes: dict[str, Any], reason: str) -> None:
    """And the GPU stays whole."""
    chosen = changes.get("settings", settings(advisor__reconcile_s=30.0))
    made = decided(context(**{"settings": chosen, **changes}))
    assert (made.share, made.why, made.floor, made.mode) == (False, reason, 0.85, Mode.ACT)
    assert (made.gres, made.edits, made.partners) == (None, Edits(), ())


def test_a_listing_of_just_three_rounds_is_young_enough() -> None:
    """The edge itself still counts."""
    chosen = settings(advisor__reconcile_s=30.0)
    assert decided(context(settings=chosen, queue=SharedGpuQueue(at_s=NOW - 90.0))).share


def test_sixteen_different_partners_are_the_most() -> None:
    """Jobs of one key are one; a job without a key is its own."""

    def crowd(count: int, **values: Any) -> SharedGpuQueue:
        others = (replace(ADAS, job=str(n), **{"key": f"k{n}", **values}) for n in range(count))
        return SharedGpuQueue(at_s=NOW, jobs=tuple(others))

    solos = {**SOLOS, **{f"k{n}": replace(SOLOS["kind"], key=f"k{n}") for n in range(20)}}
    known = replace(SNAPSHOT, solos=solos)
    made = decided(context(queue=crowd(MOST_PARTNERS), snapshot=known))
    assert made.share
    assert made.partners == tuple(str(n) for n in range(16))
    many = "too many different jobs share GPUs here at the moment"
    assert decided(context(queue=crowd(MOST_PARTNERS + 1), snapshot=known)).why == many
    assert decided(context(queue=crowd(40, key="kind"))).partners == ("39",)
    assert decided(context(queue=crowd(MOST_PARTNERS + 1, key=None))).why == many


def test_another_users_job_keeps_the_gpu_whole() -> None:
    """Unless the site shares across users, or they cannot meet."""
    bobs = replace(ADAS, user="bob")
    reason = "another user's jobs share GPUs here at the moment"
    assert decided(context(recent=[bobs])).why == reason
    assert decided(context(queue=SharedGpuQueue(at_s=NOW, jobs=(bobs,)))).why == reason
    across = decided(
        context(recent=[bobs], settings=settings(sharing__across_users=True)),
    )
    assert (across.share, across.across, across.partners) == (True, True, ("17",))
    far = {"gpu": POOL, "far": replace(POOL, nodes=frozenset({"n9"}))}
    assert decided(context(recent=[replace(bobs, partition="far")], pools=far)).share
    assert not decided(context(recent=[replace(bobs, partition="far,gpu")], pools=far)).share
    assert not decided(context(recent=[replace(bobs, partition="")], pools=far)).share
    assert decided(context(recent=[replace(bobs, kind="shard")])).share


def test_a_decision_to_share_has_every_field() -> None:
    """Speeds beside the worst, what they rest on, and the edits of a typed GPU."""
    pool = replace(POOL, gpu_types=frozenset({"a100"}), features=frozenset({"f"}))
    devices = frozenset({"cpu", "gpu"})
    made = decided(
        context(
            pool=pool,
            snapshot=replace(SNAPSHOT, devices=devices, slowdowns=AnyDevice()),
            recent=[ADAS],
            settings=settings(sharing__prefer="f"),
            task_prolog=True,
        ),
        tres_per_node=None,
        tres_per_task="gres/gpu:a100=1",
        tres_bind="gres/gpu:per_task:1",
        env={"SLURM_GPUS_PER_TASK": "1"},
    )
    assert made.why
    assert replace(made, why="") == replace(
        made,
        mode=Mode.ACT,
        share=True,
        why="",
        floor=0.85,
        gres="mps:50",
        worst=0.88,
        usual=0.96,
        evidence="these two were measured together",
        beside="kind",
        partners=("17",),
        across=False,
    )
    assert made.edits == Edits(
        gres="mps:50",
        prefer="f",
        tres_per_task="",
        tres_bind="",
        env={"DLQUEUE_SHARED": "mps:50", "SLURM_GPUS_PER_TASK": ""},
    )
    assert AnyDevice.seen == {"a100"}


class AnyDevice:
    """Everybody leaves 96 % to others, 88 % at least, on any GPU."""

    seen: set[str] = set()  # noqa: RUF012 (the test reads it)

    def speed(self, *_: Any) -> RelativeSpeed:
        """As the class says; the last argument is the GPU."""
        self.seen.add(_[2])
        return RelativeSpeed(mean=0.96, low=0.88, high=1.0, evidence=SpeedBasis.PAIR, runs=3)


@pytest.mark.parametrize(
    ("fields", "features", "prefer"),
    [
        ({}, frozenset({"f"}), "f"),
        ({}, frozenset({"g"}), None),
        ({"features": "x"}, frozenset({"f"}), None),
        ({"prefer": "x"}, frozenset({"f"}), None),
    ],
)
def test_a_feature_is_preferred_where_the_user_chose_none(
    fields: dict[str, Any], features: frozenset[str], prefer: str | None
) -> None:
    """And only where some node has it."""
    pool = replace(POOL, features=features)
    made = decided(context(pool=pool, settings=settings(sharing__prefer="f")), **fields)
    assert made.edits.prefer == prefer
    assert decided(context(pool=replace(POOL, features=frozenset({""})))).edits.prefer is None


def test_three_on_a_gpu_are_judged_together() -> None:
    """The worst partner twice: what may happen is what counts."""
    made = decided(context(settings=settings(sharing__most_together=3), recent=[ADAS]))
    assert (made.share, made.worst, made.usual, made.beside) == (False, 0.5, 0.58, "kind")
    assert made.why == "beside 2 others it may run at 50% of its speed alone"
    assert (made.gres, made.edits, made.partners) == (None, Edits(), ("17",))
    low = settings(sharing__most_together=3, sharing__floor=0.5)
    made = decided(context(settings=low, recent=[ADAS]))
    assert (made.share, made.gres) == (True, "mps:33")


def test_a_job_described_wrongly_shares_nothing() -> None:
    """The error's own words are the reason."""
    wrong = replace(SNAPSHOT, solos={**SOLOS, "mine": SoloProfile(key="", gpu_mem_bytes=-GIB)})
    made = decided(context(snapshot=wrong))
    assert made.share is False
    assert made.why


@pytest.mark.parametrize(
    ("fields", "values"),
    [
        ({"tres_per_node": None}, {}),
        ({}, {"sharing__mode": "off"}),
        ({}, {"site__mode": "off"}),
        ({"comment": "dlqueue=alone"}, {}),
    ],
)
def test_where_sharing_is_out_of_the_question_nothing_is_decided(
    fields: dict[str, Any], values: dict[str, Any]
) -> None:
    """No GPU, no mode, or no consent: each alone."""
    assert decided(context(settings=settings(**values)), **fields) is None


def test_a_gpu_of_the_whole_job_is_cleared() -> None:
    """The one field that asked for it, and a whole number of parts instead."""
    pool = replace(POOL, shares={"mps": 101})
    made = decided(context(pool=pool), tres_per_node=None, tres_per_job="gres:gpu:1")
    assert made.edits == Edits(gres="mps:50", tres_per_job="", env={"DLQUEUE_SHARED": "mps:50"})
