"""A request for one whole GPU and the rules it meets: every reason, every bound, to the word."""

from dataclasses import replace
from typing import Any

import pytest

from slurm_ext.advisor.limits.eligible import mode_of
from slurm_ext.advisor.sharing.context import (
    as_shared_gpu_job,
    rules_of,
    stale_after_s,
)
from slurm_ext.advisor.sharing.gpu_request import WholeGpuRequest, whole_gpu_request
from slurm_ext.advisor.sharing.gpu_sharers import (
    SharedGpuJob,
)
from slurm_ext.core.gpu_request import is_model
from slurm_ext.core.records import Edits, Mode, Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.policy.colocation.choose_pairs import SharingRules
from tests.advisor.sharing.test_sharing import (
    settings,
)

ONE: dict[str, Any] = {"tres_per_job": "gres:gpu:1"}

OTHER = "it asks for something else beside its GPU"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"tres_per_job": "gres:gpu:2"}, "it asks for more than one GPU"),
        ({"tres_per_job": "gres:gpu:0"}, "it asks for more than one GPU"),
        ({"tres_per_socket": "gres:gpu:1"}, "it asks for a GPU of every socket"),
        ({**ONE, "num_tasks": 2}, "it has several tasks"),
        ({**ONE, "tres_per_node": "gres:nic:1"}, OTHER),
        ({**ONE, "tres_per_task": "cpu=1,license=1"}, OTHER),
        ({"tres_per_task": "cpu=4,gres/gpu=1"}, OTHER),
        ({**ONE, "mem_per_tres": ""}, "its memory goes by its GPU"),
        ({**ONE, "ntasks_per_tres": 0}, "its tasks go by its GPU"),
        ({**ONE, "tres_freq": ""}, "it sets its GPU's frequency"),
        ({**ONE, "cpus_per_tres": ""}, "its CPUs go by its GPU"),
        ({**ONE, "tres_bind": "gpu:single:1"}, "it binds its tasks to GPUs"),
        (
            {**ONE, "env": {"SLURM_TRES_PER_TASK": "cpu=1,gres/gpu=1"}},
            "its steps ask for a GPU of their own",
        ),
        ({**ONE, "script": "srun --gres=gpu:1 x"}, "its script asks for GPUs in srun"),
        ({**ONE, "script": "srun x --tres-per-task=gpu:1"}, "its script asks for GPUs in srun"),
        ({**ONE, "script": " srun --gpu-bind=none x"}, "its script asks for GPUs in srun"),
        ({**ONE, "script": "srun \\\n -G1 x"}, "its script asks for GPUs in srun"),
        ({**ONE, "script": "# srun -G1\nsrun -G1"}, "its script asks for GPUs in srun"),
        ({**ONE, "script": "echo $SLURM_GPUS"}, "its script reads SLURM_GPUS"),
        (
            {**ONE, "script": "echo $SLURM_GPUS_ON_NODE $SLURM_GPUS_PER_TASK"},
            "its script reads SLURM_GPUS",
        ),
    ],
)
def test_why_a_gpu_stays_whole(fields: dict[str, Any], reason: str) -> None:
    """One clause that names what the user wrote."""
    assert whole_gpu_request(Submission(**fields)) == reason


@pytest.mark.parametrize(
    ("fields", "request_"),
    [
        ({"script": None}, {}),
        ({"script": " # srun -G1 x"}, {}),
        ({"script": "python x -G 1"}, {}),
        ({"script": "srun x a--gpus"}, {}),
        ({"script": "echo $SLURM_GPUS_ON_NODE"}, {}),
        ({"num_tasks": 1}, {}),
        ({"env": {"SLURM_TRES_PER_TASK": "cpu=1"}}, {}),
        ({"tres_per_task": "cpu=4"}, {}),
        ({"env": {"SLURM_TRES_BIND": "gres/gpu:none"}}, {"bound": True}),
        (
            {"tres_bind": "gres/gpu:per_task:1"},
            {"bound": True, "emptied": ("tres_per_job", "tres_bind")},
        ),
        (
            {"env": {"SLURM_GPUS": "1", "SLURM_GPUS_PER_NODE": "", "SLURM_GPUS_PER_TASK": "1"}},
            {"stale": ("SLURM_GPUS", "SLURM_GPUS_PER_TASK")},
        ),
    ],
)
def test_a_request_for_one_gpu(fields: dict[str, Any], request_: dict[str, Any]) -> None:
    """What has to be cleared with it, and no more."""
    whole = WholeGpuRequest(**{"emptied": ("tres_per_job",), **request_})
    assert whole_gpu_request(Submission(**ONE, **fields)) == whole


@pytest.mark.parametrize(
    ("kind", "model", "same"),
    [
        ("a100", "NVIDIA A100-SXM4-80GB", True),
        ("A100_SXM4", "NVIDIA A100-SXM4-80GB", True),
        ("a100_80", "NVIDIA A100 80GB PCIe", True),
        ("rtx3090", "NVIDIA GeForce RTX 3090", True),
        ("h100", "NVIDIA A100-SXM4-80GB", False),
        ("a10", "NVIDIA A100-SXM4-80GB", False),
        ("a10", "NVIDIA A10G", False),
        ("NVIDIA L4", "NVIDIA L40S", False),
        ("h200", "NVIDIA GH200 480GB", False),
        ("", "NVIDIA A100", False),
        ("-", "NVIDIA A100", False),
        ("a100", None, False),
        ("x", None, False),
    ],
)
def test_slurms_name_is_part_of_the_drivers(kind: str, model: str | None, same: bool) -> None:
    """Letters and digits count, in any case, from word to word; no name is no part."""
    assert is_model(kind, model) is same


def test_the_rules_of_a_site_arrive_in_the_policys_words() -> None:
    """Floor, users, bytes, count and the pairs to keep apart."""
    chosen = settings(
        sharing__floor=0.7,
        sharing__across_users=True,
        sharing__gpu_mem_mib=3,
        sharing__most_together=4,
    )
    bad = frozenset({frozenset({"a", "b"})})
    assert rules_of(chosen, bad) == SharingRules(
        floor=0.7, same_user=False, gpu_mem_bytes=3 << 20, most_together=4, bad_pairs=bad
    )
    assert rules_of(chosen).bad_pairs == frozenset()


@pytest.mark.parametrize(("reconcile_s", "stale_s"), [(1.0, 60.0), (20.0, 60.0), (30.0, 90.0)])
def test_a_listing_is_old_after_three_rounds(reconcile_s: float, stale_s: float) -> None:
    """And never before a minute."""
    found = stale_after_s(Settings(values={"advisor.reconcile_s": reconcile_s}))
    assert (found, type(found)) == (stale_s, float)


def test_a_part_of_a_gpu_as_later_jobs_see_it() -> None:
    """Without a part there is nothing to see."""
    edits = Edits(gres="shard:3")
    plain = Submission(user_name="ada")
    assert as_shared_gpu_job(plain, None, "d1", Edits()) is None
    assert as_shared_gpu_job(plain, None, "d1", edits) == SharedGpuJob(
        job="d1", user="ada", kind="shard", count=3
    )
    named = replace(plain, account="a", partition="p")
    assert as_shared_gpu_job(named, "k", "d1", edits) == SharedGpuJob(
        job="d1", user="ada", account="a", partition="p", kind="shard", count=3, key="k"
    )


@pytest.mark.parametrize(
    ("site", "sharing", "mode"),
    [
        ("act", "advise", Mode.ADVISE),
        ("advise", "act", Mode.ADVISE),
        ("act", "off", Mode.OFF),
        ("shadow", "act", Mode.SHADOW),
        ("act", "act", Mode.ACT),
    ],
)
def test_the_more_careful_mode_holds(site: str, sharing: str, mode: Mode) -> None:
    """Of sharing's own and that of the job's account or partition."""
    plain = Settings(values={"site.mode": site, "sharing.mode": sharing})
    assert mode_of(Submission(), plain, "sharing.mode") is mode
    values = {"site.mode": "off", "sharing.mode": sharing}
    own = Settings(
        values=values, account_modes={"a": Mode(site)}, partition_modes={"p": Mode(site)}
    )
    assert mode_of(Submission(account="a"), own, "sharing.mode") is mode
    assert mode_of(Submission(partition="p"), own, "sharing.mode") is mode
    assert mode_of(Submission(account="b", partition="q"), own, "sharing.mode") is Mode.OFF
