"""What the advisor remembers and reads beside the decision: answers, queue, blocklist, model."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ext.advisor.sharing import serving_slowdown
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
from slurm_ext.core.records import Edits
from slurm_ext.slurm import JobInfo
from tests.advisor.sharing.test_sharing import (
    ADAS,
    NOW,
    SNAPSHOT,
    SOLOS,
    job,
    memory,
    settings,
    thought,
)
from tests.advisor.sharing.test_sharing_decision_exact import AnyDevice


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
