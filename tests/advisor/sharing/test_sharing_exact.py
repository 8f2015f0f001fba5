"""Sharing a GPU, to the word: every reason, every edge of count and time, and the files beside."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.advisor.limits.gpu_pools import GpuPool
from slurm_ext.advisor.sharing import serving_slowdown
from slurm_ext.advisor.sharing.context import (
    SharingContext,
    as_shared_gpu_job,
    mode_of,
    rules_of,
    stale_after_s,
)
from slurm_ext.advisor.sharing.decide_sharing import MOST_PARTNERS, decide_sharing
from slurm_ext.advisor.sharing.gpu_request import WholeGpuRequest, is_model, whole_gpu_request
from slurm_ext.advisor.sharing.gpu_sharers import (
    SharedGpuJob,
    SharedGpuQueue,
    read,
    shared_gpu_jobs,
    write,
)
from slurm_ext.advisor.sharing.memory import SEEN_S, SharingMemory
from slurm_ext.advisor.sharing.pair_blocklist import MAX_BYTES, PairBlocklist
from slurm_ext.advisor.sharing.serving_slowdown import SlowdownSnapshot, serving
from slurm_ext.core.errors import InputError
from slurm_ext.core.gpu_sharing import RelativeSpeed, SoloProfile, SpeedBasis
from slurm_ext.core.records import Edits, Mode, Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.policy.colocation.choose_pairs import SharingRules
from slurm_ext.slurm import JobAllowance, JobInfo
from tests.advisor.sharing.test_sharing import (
    ADAS,
    GIB,
    NOW,
    POOL,
    RULES,
    SNAPSHOT,
    SOLOS,
    job,
    memory,
    settings,
    thought,
    why,
)

# -- the request for one GPU ----------------------------------------------------------------------

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
        ("h100", "NVIDIA A100-SXM4-80GB", False),
        ("", "NVIDIA A100", False),
        ("-", "NVIDIA A100", False),
        ("a100", None, False),
        ("x", None, False),
    ],
)
def test_slurms_name_is_part_of_the_drivers(kind: str, model: str | None, same: bool) -> None:
    """Letters and digits count, in any case; no name is no part."""
    assert is_model(kind, model) is same


# -- the context ----------------------------------------------------------------------------------


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
    assert mode_of(Submission(), plain) is mode
    values = {"site.mode": "off", "sharing.mode": sharing}
    own = Settings(
        values=values, account_modes={"a": Mode(site)}, partition_modes={"p": Mode(site)}
    )
    assert mode_of(Submission(account="a"), own) is mode
    assert mode_of(Submission(partition="p"), own) is mode
    assert mode_of(Submission(account="b", partition="q"), own) is Mode.OFF


# -- the decision ---------------------------------------------------------------------------------


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


# -- the advisor's memory -------------------------------------------------------------------------


def test_recent_answers_are_forgotten_when_a_listing_shows_them() -> None:
    """Three seconds before a listing, or after two times the age of an old one."""
    held = memory()
    part = Edits(gres="mps:50")
    held.remember(job(), "mine", "none", Edits(), NOW)
    held.remember(job(user_name="bob"), "mine", "d1", part, NOW - 10)
    assert [(at_s, one.job, one.key) for at_s, one in held._recent] == [(NOW - 10, "d1", "mine")]
    held.queue = SharedGpuQueue(at_s=NOW - 10 + SEEN_S)
    assert not thought_share(held)  # answered just three seconds before: it may not stand in it
    held.queue = SharedGpuQueue(at_s=NOW - 10 + SEEN_S + 0.1)
    assert thought_share(held)
    held.queue = SharedGpuQueue(at_s=NOW - 300)
    held.remember(job(user_name="bob"), "mine", "d2", part, NOW - 120)
    thought(held)
    assert len(held._recent) == 1
    thought(held, values={"advisor__reconcile_s": 1.0})
    assert len(held._recent) == 1
    held.remember(job(), "mine", "d3", part, NOW)
    held._forget(settings(advisor__reconcile_s=1.0), NOW + 1)
    assert [one.job for _, one in held._recent] == ["d3"]


def thought_share(held: SharingMemory) -> bool:
    """True if ada's job shares."""
    made = thought(held)
    assert made is not None
    return made.share


def test_a_job_without_a_partition_goes_to_the_default_one() -> None:
    """And is weighed there."""
    made = thought(partition=None)
    assert made is not None
    assert made.share


def test_the_queue_is_read_again_when_it_changes(tmp_path: Path) -> None:
    """A file that went is an empty queue."""
    held = SharingMemory()
    held.look(tmp_path)
    assert held.queue == SharedGpuQueue()
    first = SharedGpuQueue(at_s=1.0, jobs=(ADAS,))
    write(tmp_path, first)
    held.look(tmp_path)
    assert held.queue == first
    same = held.queue
    held.look(tmp_path)
    assert held.queue is same
    write(tmp_path, SharedGpuQueue(at_s=2.0))
    held.look(tmp_path)
    assert held.queue == SharedGpuQueue(at_s=2.0)
    (tmp_path / "queue.json").unlink()
    held.look(tmp_path)
    assert held.queue == SharedGpuQueue()
    write(tmp_path, first)
    held.look(tmp_path)
    assert held.queue == first
    assert (held.snapshot, held.cooldowns.known) == (None, {})


# -- files ----------------------------------------------------------------------------------------


def test_the_queues_file_is_as_its_schema_says(tmp_path: Path) -> None:
    """Version, time and every field of each job."""
    write(tmp_path, SharedGpuQueue(at_s=2.5, jobs=(SharedGpuJob(job="1", user="ada"),)))
    text = (tmp_path / "queue.json").read_text()
    assert " " not in text
    assert json.loads(text) == {
        "v": 1,
        "at_s": 2.5,
        "jobs": [
            {
                "job": "1",
                "user": "ada",
                "account": "",
                "partition": "",
                "state": "PENDING",
                "kind": "mps",
                "count": 0,
                "key": None,
            }
        ],
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"v":2}', "is not a list of jobs: ValueError('another version')"),
        ('{"v":1}', "is not a list of jobs: KeyError('at_s')"),
    ],
)
def test_a_damaged_queue_is_named_to_the_word(tmp_path: Path, text: str, reason: str) -> None:
    """File and fault."""
    path = tmp_path / "queue.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read(tmp_path)
    assert str(caught.value) == f"{path}: {reason}"


def test_a_queue_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """With the system's reason."""
    path = tmp_path / "queue.json"
    path.mkdir()
    with pytest.raises(InputError) as caught:
        read(tmp_path)
    assert str(caught.value) == f"{path}: cannot be read: Is a directory"


def test_jobs_of_slurm_that_have_a_part_of_a_gpu() -> None:
    """The first part of each; jobs without one, and ended ones, are left out."""
    jobs = [
        JobInfo(
            job_id=7,
            user_name="ada",
            account="a",
            partition="p",
            state="RUNNING",
            gres="gres/nic:1,gres/shard:2,gres/mps:5",
        ),
        JobInfo(job_id=8, state="RUNNING", gres="gres/gpu:1"),
        JobInfo(job_id=9, state="FAILED", gres="gres/mps:5"),
    ]
    assert shared_gpu_jobs(jobs) == [
        SharedGpuJob(
            job="7", user="ada", account="a", partition="p", state="RUNNING", kind="shard", count=2
        )
    ]


def blocklist_error(state: Path) -> str:
    """The message of a look at a damaged file."""
    with pytest.raises(InputError) as caught:
        PairBlocklist().look(state)
    return str(caught.value).removeprefix(f"{state}/pairing/")


def test_a_damaged_blocklist_is_named_to_the_word(tmp_path: Path) -> None:
    """Version, size, and what the system says."""
    folder = tmp_path / "pairing"
    folder.mkdir()
    undo = folder / "undo.json"
    undo.write_text('{"v": 2}')
    not_ours = "undo.json: is not the pairing's memory: "
    assert blocklist_error(tmp_path) == f"{not_ours}ValueError('another version')"
    with undo.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    assert blocklist_error(tmp_path) == (
        f"{not_ours}ValueError('{MAX_BYTES + 1} bytes, at most {MAX_BYTES} are read')"
    )
    with undo.open("wb") as file:
        file.truncate(MAX_BYTES)
    assert "at most" not in blocklist_error(tmp_path)
    undo.unlink()
    undo.mkdir()
    assert blocklist_error(tmp_path) == "undo.json: cannot be read: Is a directory"


def test_a_blocklist_follows_its_file(tmp_path: Path) -> None:
    """Unchanged it is not read again; gone it is empty."""
    folder = tmp_path / "pairing"
    folder.mkdir()
    undo = folder / "undo.json"
    undo.write_text('{"v": 1, "kept": {"grudges": [[["a", "b"], 5.0, 1]]}}')
    known = PairBlocklist()
    known.look(tmp_path)
    before = known.known
    assert set(before) == {frozenset({"a", "b"})}
    known.look(tmp_path)
    assert known.known is before
    undo.unlink()
    known.look(tmp_path)
    assert known.known == {}


# -- the model of slowdowns -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("devices", "kind", "device"),
    [
        ((), "", "gpu"),
        ((), "a100", "a100"),
        (("cpu",), "", "gpu"),
        (("cpu", "NVIDIA A100"), "", "NVIDIA A100"),
        (("NVIDIA A100", "NVIDIA H100"), "", "gpu"),
        (("NVIDIA A100", "NVIDIA H100"), "h100", "NVIDIA H100"),
        (("NVIDIA A100 Z", "NVIDIA A100"), "a100", "NVIDIA A100"),
        (("NVIDIA A100",), "v100", "v100"),
    ],
)
def test_the_models_name_of_a_gpu(devices: tuple[str, ...], kind: str, device: str) -> None:
    """By a part of its name; without a type the only one, else just a GPU."""
    assert replace(SNAPSHOT, devices=frozenset(devices)).device(kind) == device


def test_the_promoted_model_of_slowdowns_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loaded once, kept while it is promoted, and gone with its link."""
    from slurm_ext.model.slowdown import artifact

    class Slowdowns(AnyDevice):
        solos = SOLOS
        devices = frozenset({"cpu", "x"})

    class Loaded:
        slowdowns = Slowdowns()
        name = "one"

    loads: list[Path] = []

    def load(folder: Path) -> Loaded:
        loads.append(folder)
        return Loaded()

    monkeypatch.setattr(artifact, "load", load)
    now = replace(SNAPSHOT, name="one")
    assert serving(tmp_path, None) is None
    assert serving(tmp_path, now) is None
    kept = tmp_path / artifact.FOLDER
    (kept / "one").mkdir(parents=True)
    (kept / "current").symlink_to("one")
    assert serving(tmp_path, now) is now
    assert loads == []
    made = serving(tmp_path, replace(now, name="two"))
    assert made == SlowdownSnapshot(
        slowdowns=Loaded.slowdowns, solos=SOLOS, devices=Slowdowns.devices, name="one"
    )
    assert serving(tmp_path, None) == made
    assert [folder.name for folder in loads] == ["one", "one"]
    assert serving_slowdown.serving is serving
