"""Sharing at submission: who is given a part of a GPU, and every reason to leave it whole."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.limits.gpu_pools import GpuPool
from slurm_ext.advisor.limits.partition_limits import ClusterRules
from slurm_ext.advisor.pipeline.context import DecisionContext
from slurm_ext.advisor.pipeline.respond import respond
from slurm_ext.advisor.sharing.gpu_request import whole_gpu_request
from slurm_ext.advisor.sharing.gpu_sharers import SharedGpuJob, SharedGpuQueue
from slurm_ext.advisor.sharing.memory import SharingMemory
from slurm_ext.advisor.sharing.serving_slowdown import SlowdownSnapshot
from slurm_ext.advisor.sharing.terms import SharingDecision, slower
from slurm_ext.core.gpu_sharing import RelativeSpeed, SoloProfile, SpeedBasis
from slurm_ext.core.records import Mode, Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm import Accounting, Association, JobAllowance
from slurm_ext.slurm.allowances import Allowances

NOW = 1_795_262_400.0
GIB = 1024.0**3
TOKEN = "d1-0123456789abcdef"
POOL = GpuPool(nodes=frozenset({"n1"}), gpu_types=frozenset({""}), shares={"mps": 100})
RULES = ClusterRules(
    partitions={"gpu": PartitionRules(cpus_per_node=16)}, default="gpu", pools={"gpu": POOL}
)
SOLOS = {
    name: SoloProfile(key=name, gpu_mem_bytes=4 * GIB) for name in ("mine", "kind", "cruel", "huge")
}
SOLOS["huge"] = replace(SOLOS["huge"], gpu_mem_bytes=14 * GIB)
SOLOS["untold"] = SoloProfile(key="untold")


class Table:
    """Everybody leaves 96 % to others (88 % at least), but for the cruel, and three at once."""

    def speed(
        self, job: SoloProfile, beside: Sequence[SoloProfile], device: str = "cpu"
    ) -> RelativeSpeed:
        """As the class says."""
        assert device == "gpu"
        low = 0.5 if "cruel" in {one.key for one in beside} or len(beside) > 1 else 0.88
        return RelativeSpeed(mean=low + 0.08, low=low, high=1.0, evidence=SpeedBasis.PAIR, runs=3)


SNAPSHOT = SlowdownSnapshot(slowdowns=Table(), solos=SOLOS)


def settings(**values: Any) -> Settings:
    """Acting on every partition of a site with GPUs of 16 GiB; dots are written as __."""
    chosen = {
        "site__mode": "act",
        "policy__holdout_share": 0.0,
        "sharing__mode": "act",
        "sharing__partitions": ["gpu"],
        "sharing__gpu_mem_mib": 16 * 1024,
        **values,
    }
    return Settings(values={name.replace("__", "."): value for name, value in chosen.items()})


def job(**fields: Any) -> Submission:
    """Ada's job of one GPU."""
    plain = {"script": "#!/bin/sh\npython train.py\n", "user_name": "ada", "partition": "gpu"}
    return Submission(**{**plain, "tres_per_node": "gres:gpu:1", **fields})


def memory(
    *others: SharedGpuJob, at_s: float = NOW - 5, snapshot: SlowdownSnapshot | None = SNAPSHOT
) -> SharingMemory:
    """A memory that looked at the queue five seconds ago."""
    held = SharingMemory()
    held.queue, held.snapshot = SharedGpuQueue(at_s=at_s, jobs=others), snapshot
    return held


def thought(
    held: SharingMemory | None = None,
    rules: ClusterRules = RULES,
    key: str | None = "mine",
    values: dict[str, Any] | None = None,
    **fields: Any,
) -> SharingDecision | None:
    """What is thought of ada's job."""
    one = job(**fields)
    chosen = settings(**(values or {}))
    return (held or memory()).decide(
        one, whole_gpu_request(one), key, settings=chosen, rules=rules, now_s=NOW
    )


def why(*args: Any, **fields: Any) -> str:
    """Why ada's job keeps its GPU."""
    found = thought(*args, **fields)
    assert found is not None
    assert not found.share
    assert found.edits.gres is None
    return found.why


ADAS = SharedGpuJob(job="17", user="ada", partition="gpu", count=50, key="kind")


def test_a_job_beside_its_own_kind_shares() -> None:
    """One GPU becomes half of one, with the bound and what it rests on."""
    found = thought()
    assert found is not None
    assert (found.share, found.gres, found.worst) == (True, "mps:50", 0.88)
    assert found.usual == pytest.approx(0.96)
    assert found.evidence == SpeedBasis.PAIR.value
    assert found.edits.gres == "mps:50"
    assert found.edits.env == {"DLQUEUE_SHARED": "mps:50"}


def test_what_asked_for_the_gpu_is_cleared() -> None:
    """Fields and variables of --gpus go together with the new request."""
    found = thought(
        tres_per_node=None, tres_per_job="gres:gpu:1", env={"SLURM_GPUS": "1", "DLQUEUE_SHARE": "1"}
    )
    assert found is not None
    assert (found.edits.tres_per_job, found.edits.tres_per_task) == ("", None)
    assert found.edits.env == {"DLQUEUE_SHARED": "mps:50", "SLURM_GPUS": ""}


@pytest.mark.parametrize(
    ("values", "fields", "asked"),
    [
        ({}, {}, True),
        ({"sharing__partitions": []}, {}, False),
        ({"sharing__partitions": ["*"]}, {}, True),
        ({}, {"partition": "gpu,other"}, False),
        ({"sharing__partitions": [], "sharing__accounts": ["vision"]}, {"account": "vision"}, True),
        ({"sharing__partitions": []}, {"comment": "x dlqueue=share"}, True),
        ({"sharing__partitions": []}, {"env": {"DLQUEUE_SHARE": "1"}}, True),
        ({}, {"env": {"DLQUEUE_SHARE": "0"}}, False),
        ({}, {"comment": "dlqueue=alone"}, False),
        ({"sharing__mode": "off"}, {}, False),
        ({"site__mode": "off"}, {}, False),
        ({}, {"tres_per_node": None}, False),
        ({}, {"tres_per_node": "gres:mps:50"}, False),
    ],
)
def test_only_who_agreed_is_asked_about(
    values: dict[str, Any], fields: dict[str, Any], asked: bool
) -> None:
    """Partition, account or job says yes; the job's own no always wins."""
    assert (thought(values=values, **fields) is not None) is asked


@pytest.mark.parametrize(
    ("site", "sharing", "mode"),
    [
        ("act", "act", Mode.ACT),
        ("act", "shadow", Mode.SHADOW),
        ("shadow", "act", Mode.SHADOW),
        ("advise", "act", Mode.ADVISE),
    ],
)
def test_sharing_goes_no_farther_than_all_else(site: str, sharing: str, mode: Mode) -> None:
    """The more careful of both modes holds."""
    found = thought(values={"site__mode": site, "sharing__mode": sharing})
    assert found is not None
    assert found.mode is mode


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"shared": 0}, "--exclusive"),
        ({"reservation": "class"}, "reservation"),
        ({"max_nodes": 2}, "several nodes"),
        ({"tres_per_node": "gres:gpu:2"}, "more than one GPU"),
        ({"tres_per_node": "gres:gpu:a100:1"}, "several kinds of GPU"),
    ],
)
def test_who_is_left_alone_in_all_else_keeps_its_gpu(fields: dict[str, Any], reason: str) -> None:
    """Eligibility is the same as for every other edit, and a type of GPU is kept."""
    assert reason in why(**fields)


@pytest.mark.parametrize(
    ("pool", "reason"),
    [
        (None, "not known"),
        (replace(POOL, shares={}, refused={"mps": "its partition has no GPUs"}), "has no GPUs"),
        (replace(POOL, shares={"mps": 1}), "fewer mps than jobs"),
        (replace(POOL, gpu_types=frozenset({"a100", "v100"})), "several kinds of GPU"),
    ],
)
def test_without_shares_everywhere_the_gpu_stays_whole(pool: GpuPool | None, reason: str) -> None:
    """A job never asks for what its nodes do not have."""
    assert reason in why(rules=replace(RULES, pools={"gpu": pool} if pool else {}))


@pytest.mark.parametrize(
    ("allowance", "shares"),
    [
        (JobAllowance(), True),
        (JobAllowance(max_mps=0), False),
        (JobAllowance(max_mps=49), False),
        (JobAllowance(max_mps=50), True),
        (JobAllowance(max_cpus=1), True),
    ],
)
def test_limits_on_gpus_hold(allowance: JobAllowance, shares: bool) -> None:
    """Where a QOS limits GPUs, a part of one counts too, or nobody gets one."""
    own = Association(account="a", user="ada", default_qos="q", qos=("q",))
    accounting = Accounting(associations=(own,), qos={"q": allowance})
    found = thought(rules=replace(RULES, allowances=Allowances(accounting)))
    assert found is not None
    assert found.share is shares
    unknown = replace(RULES, allowances=Allowances(Accounting()))
    assert "not known" in why(rules=unknown)


def test_steps_that_stay_bound_need_a_task_prolog() -> None:
    """SLURM_TRES_BIND can only be unset on the node: without a task prolog the GPU stays whole."""
    fields: dict[str, Any] = {
        "tres_per_node": None,
        "tres_per_task": "gres/gpu=1",
        "tres_bind": "gres/gpu:per_task:1",
    }
    assert "task prolog" in why(**fields)
    found = thought(rules=replace(RULES, task_prolog=True), **fields)
    assert found is not None
    assert found.edits.tres_bind == ""


@pytest.mark.parametrize(
    ("others", "values", "reason"),
    [
        ((replace(ADAS, key="cruel"),), {}, "50%"),
        ((ADAS, replace(ADAS, job="18", key="cruel")), {}, "50%"),
        ((replace(ADAS, key="huge"),), {}, "GPU memory"),
        ((replace(ADAS, key="untold"),), {}, "GPU memory"),
        ((replace(ADAS, key=None),), {}, "GPU memory"),
        ((replace(ADAS, user="bob"),), {}, "another user"),
        ((replace(ADAS, user="bob", partition="unknown"),), {}, "another user"),
        ((), {"sharing__floor": 0.95}, "88%"),
        ((), {"sharing__most_together": 3}, "beside 2 others"),
        ((), {"sharing__gpu_mem_mib": 0}, "sharing.gpu_mem_mib"),
        ((), {"sharing__gpu_mem_mib": 6 * 1024}, "GPU memory"),
    ],
)
def test_whom_it_may_meet_decides(
    others: tuple[SharedGpuJob, ...], values: dict[str, Any], reason: str
) -> None:
    """The worst of all that could be on its GPU has to leave it its floor, and room."""
    assert reason in why(memory(*others), values=values)


@pytest.mark.parametrize(
    ("other", "values"),
    [
        (ADAS, {}),
        (replace(ADAS, user="bob"), {"sharing__across_users": True}),
        (replace(ADAS, user="bob", kind="shard"), {}),
        (replace(ADAS, user="bob", partition="far"), {}),
    ],
)
def test_who_is_kind_or_far_away_does_no_harm(other: SharedGpuJob, values: dict[str, Any]) -> None:
    """Others count where they can meet: same nodes, same kind of share, users as the site says."""
    rules = replace(RULES, pools={"gpu": POOL, "far": replace(POOL, nodes=frozenset({"n9"}))})
    found = thought(memory(other), rules=rules, values=values)
    assert found is not None
    assert found.share


def test_what_is_not_known_is_not_done() -> None:
    """No model, no runs of this job, or a queue that nobody looked at lately: left whole."""
    assert "not known yet" in why(memory(snapshot=None))
    assert "not known yet" in why(key="never seen")
    assert "not known yet" in why(key=None)
    assert "who shares at the moment" in why(memory(at_s=NOW - 1000))
    crowd = [replace(ADAS, job=str(n), key=f"k{n}") for n in range(40)]
    assert "too many" in why(memory(*crowd))


def test_the_last_answers_count_before_a_listing_shows_them() -> None:
    """Two users who submit within a second do not meet; a listing takes the answers' place."""
    held, bobs = memory(), job(user_name="bob")
    found = thought(held)
    assert found is not None
    held.remember(bobs, "mine", TOKEN, found.edits, NOW - 1)
    assert "another user" in why(held)
    held.queue = SharedGpuQueue(at_s=NOW + 5)
    found = thought(held)
    assert found is not None
    assert found.share


@pytest.mark.parametrize("mode", list(Mode))
def test_the_mode_says_what_reaches_the_job(mode: Mode) -> None:
    """Shadow records only, advise tells only; both leave the job its GPU."""
    shared = thought(values={"sharing__mode": mode.value})
    given = respond(job(), DecisionContext(settings=settings()), TOKEN, shared)
    assert given.edits.gres == ("mps:50" if mode is Mode.ACT else None)
    assert ("at most 12 % slower" in (given.message or "")) is (mode in (Mode.ACT, Mode.ADVISE))
    assert (shared is None) is (mode is Mode.OFF)
    if mode is Mode.ACT:
        assert given.message == (
            "dlqueue: shares its GPU with another job of yours, at most 12 % slower (usually 4 %)."
            " Opt out: --comment=dlqueue=off"
        )


def test_the_control_group_keeps_its_gpu_and_is_told_nothing() -> None:
    """The gain is measured against jobs that were left alone."""
    values = {"policy__holdout_share": 0.5}
    shared = thought(values=values)
    known = DecisionContext(settings=settings(**values))
    answers = [respond(job(), known, f"d1-{n:016x}", shared) for n in range(40)]
    for given in answers:
        assert (given.edits.gres is None) is given.holdout
        assert (given.message is None) is given.holdout
    assert {given.holdout for given in answers} == {True, False}


def test_an_inherited_mark_is_wiped() -> None:
    """A job submitted by one that shares does not pass for one that shares."""
    given = respond(
        job(env={"DLQUEUE_SHARED": "mps:50"}), DecisionContext(settings=settings()), TOKEN
    )
    assert given.edits.env["DLQUEUE_SHARED"] == ""


def test_the_preferred_feature_is_set_where_nodes_have_it() -> None:
    """Unknown features get a job rejected, and the user's own constraint goes first."""
    rules = replace(RULES, pools={"gpu": replace(POOL, features=frozenset({"pairs"}))})
    values = {"sharing__prefer": "pairs"}
    cases = [(rules, None, "pairs"), (RULES, None, None), (rules, "x", None)]
    for book, features, prefer in cases:
        found = thought(rules=book, values=values, features=features)
        assert found is not None
        assert found.edits.prefer == prefer


@pytest.mark.parametrize(
    ("speed", "percent"), [(1.2, 0), (1.0, 0), (0.999, 1), (0.88, 12), (0.5, 50)]
)
def test_a_loss_is_never_rounded_down(speed: float, percent: int) -> None:
    """At most means at most."""
    assert slower(speed) == percent


def test_the_ledger_keeps_the_decision_as_json() -> None:
    """What was thought can be written, whatever it was."""
    for found in (thought(), thought(memory(snapshot=None))):
        assert found is not None
        body = json.loads(json.dumps(found.as_json(done=False)))
        assert {"share", "why", "worst", "floor", "beside", "partners", "done"} <= body.keys()
