"""An MPS daemon's life through the hooks: shared, found again, gone with its last job."""

import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_ext.node.mps import processes
from slurm_ext.node.mps.rules import DEVICES, LOG, MEMORY, PIPE
from tests.mps_standin import Client
from tests.node.by_hand import wait_for
from tests.node.by_mps import MpsNode

MakeMps = Callable[..., MpsNode]


def test_two_jobs_share_one_daemon_until_both_are_gone(make_mps: MakeMps) -> None:
    """The second job finds the first one's; the last epilog ends it; nothing lies around."""
    node = make_mps()
    first, second = node.hooked(1), node.hooked(2)
    assert first == second
    assert first[DEVICES] == node.uuid
    assert first[MEMORY] == f"0={81559 * 95 // 200}M"
    (pid,) = node.daemons()
    node.epilog(1)
    assert node.daemons() == [pid]
    node.epilog(2)
    assert (node.ours(), node.remains()) == ([], [])
    record = node.record(2)
    assert (record["mps"]["gpu"], record["mps"]["percent"]) == (node.uuid, 50)
    faults = record["probe"]["faults"] + node.record(1)["probe"]["faults"]
    assert not any(fault.startswith("MPS") for fault in faults)


def test_off_is_off(make_mps: MakeMps) -> None:
    """By default nothing of it is there: no folder, no process, no word in a record."""
    node = make_mps(**{"mps.mode": "off"})
    assert node.hooked(1) == {}
    node.epilog(1)
    assert not node.mps.exists()
    assert node.record(1)["mps"] is None


@pytest.mark.parametrize(
    ("groups", "refused"),
    [
        ("0::/system.slice/slurmstepd.scope/job_1/step_extern/user/task_0\n", True),
        ("4:memory:/slurm/uid_1000/job_1/step_extern\n1:cpu:/slurm/uid_1000/job_1\n", True),
        ("0::/system.slice/slurmd.service\n", False),
        ("0::/system.slice/slurmstepd.scope/job_12/step_0/user\n", False),
    ],
)
def test_a_prolog_inside_the_job_starts_no_daemon(
    make_mps: MakeMps, monkeypatch: pytest.MonkeyPatch, groups: str, refused: bool
) -> None:
    """With RunInJob the daemon would end with the job, under the user's other jobs."""
    node = make_mps()
    told = node.root / "groups"
    told.write_text(groups)
    monkeypatch.setattr(processes, "OWN_GROUPS", str(told))
    assert (node.start(1) == {}) is refused
    assert (node.daemons() == []) is refused
    assert any("RunInJob" in text for text in node.end(1)) is refused


def test_its_folders_are_the_users_alone(make_mps: MakeMps) -> None:
    """Pipe and log folder 0700; what says who uses it is root's, and users see no other's."""
    node = make_mps()
    told = node.start(1)
    for name in (PIPE, LOG):
        found = Path(told[name]).stat()
        assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o700, os.getuid())
    place = Path(told[PIPE]).parents[1]
    assert [stat.S_IMODE(path.stat().st_mode) for path in (node.mps, place)] == [0o711, 0o711]
    assert stat.S_IMODE((place / "jobs").stat().st_mode) == 0o700
    assert node.end(1) == []


def test_a_gpu_is_one_by_its_index_and_by_its_uuid(make_mps: MakeMps) -> None:
    """Slurm before 26.05 names it by index, later ones by UUID: both jobs have one daemon."""
    node = make_mps()
    by_index, by_uuid = node.start(1), node.start(2, CUDA_VISIBLE_DEVICES=node.uuid)
    assert by_uuid == by_index
    assert by_uuid[MEMORY] == f"0={81559 * 95 // 200}M"
    assert len(node.daemons()) == 1
    assert node.end(1) == node.end(2) == []
    assert (node.ours(), node.remains()) == ([], [])


@pytest.mark.root
def test_it_runs_as_the_jobs_user(make_mps: MakeMps) -> None:
    """Neither daemon nor what asks it is root; two users on a GPU have a daemon each."""
    node = make_mps()
    told = node.start(1, SLURM_JOB_UID="65534", SLURM_JOB_GID="65534")
    other = node.start(2)
    assert Path(told[PIPE]).stat().st_uid == 65534
    assert told[PIPE] != other[PIPE]
    assert {each.uid for each in node.ours()} == {0, 65534}
    node.end(2)
    assert {each.uid for each in node.ours()} == {65534}
    node.end(1)
    assert node.ours() == []


@pytest.mark.root
def test_an_exclusive_gpu_has_one_users_mps(make_mps: MakeMps) -> None:
    """The second user's server could not start: his job is told so, and runs without."""
    node = make_mps()
    node.misbehave(cards=[f"{node.uuid}, 81559, Disabled, Exclusive_Process"])
    assert node.start(1) == node.start(2) != {}
    assert node.start(3, SLURM_JOB_UID="65534", SLURM_JOB_GID="65534") == {}
    assert "another user's MPS has it" in node.end(3)[0]
    assert node.end(1) == node.end(2) == []


def test_clients_that_go_on_are_ended(make_mps: MakeMps) -> None:
    """`quit` waits for them, and nothing waits for ever: a server with a client is shut down."""
    node = make_mps(**{"mps.drain_s": 0.05})
    client = Client(node.start(1)[PIPE])
    wait_for(lambda: len(node.ours()) == 2)  # with a server now
    node.end(1)
    assert (node.ours(), node.remains()) == ([], [])
    client.close()


def test_a_fault_is_told_to_all_who_shared(make_mps: MakeMps) -> None:
    """Each record names the others, also the ones that left before; who joined later is spared."""
    node = make_mps()
    pipe = node.start(1)[PIPE]
    node.start(2)
    client = Client(pipe)
    client.fault()
    first = node.end(1)
    node.start(3)
    second, third = node.end(2), node.end(3)
    assert "a neighbour's (2) on GPU" in first[0]
    assert "a neighbour's (1" in second[0]
    assert "fatal exception" in second[0]
    assert third == []
    client.close()


def test_a_server_in_fault_takes_no_new_job(make_mps: MakeMps) -> None:
    """It waits for its clients to end; the new job runs with plain time slicing."""
    node = make_mps()
    client = Client(node.start(1)[PIPE])
    node.misbehave(status="FAULT")
    before = [each.pid for each in node.ours()]
    assert node.start(2) == {}
    assert [each.pid for each in node.ours()] == before
    assert "a faulty one to end; plain time slicing" in node.end(2)[0]
    client.close()
    assert node.end(1) == []


def test_a_job_of_another_kind_is_not_concerned(make_mps: MakeMps) -> None:
    """A whole GPU, and two of them."""
    node = make_mps()
    whole = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": ""}
    assert node.start(1, **whole) == node.start(2, CUDA_VISIBLE_DEVICES="0,1") == {}
    assert not node.mps.exists()
    assert node.end(1) == node.end(2) == []


def test_a_second_prolog_changes_nothing(make_mps: MakeMps) -> None:
    """One job is one client."""
    node = make_mps()
    assert node.start(1) == node.start(1)
    assert len(node.daemons()) == 1
    node.end(1)
    assert node.ours() == []


def test_a_restarted_slurmd_finds_it_again(make_mps: MakeMps) -> None:
    """Hooks know it by what is on the disk and in /proc; without the file, by /proc alone."""
    node = make_mps()
    node.start(1)
    (pid,) = node.daemons()
    (known,) = node.mps.glob("*/daemon")
    known.unlink()
    node.start(2)
    assert node.daemons() == [pid]
    assert known.exists()
    for job in (1, 2):
        assert node.end(job) == []
    assert node.ours() == []


def test_a_reused_pid_is_no_daemon(make_mps: MakeMps) -> None:
    """The start time has to fit, and the boot."""
    node = make_mps()
    node.start(1)
    (known,) = node.mps.glob("*/daemon")
    (pid,) = node.daemons()
    os.kill(pid, signal.SIGKILL)
    known.write_text(known.read_text().replace(f'"pid": {pid}', f'"pid": {os.getpid()}'))
    assert "was gone before" in node.end(1)[0]
    assert node.remains() == []
