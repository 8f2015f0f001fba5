"""MPS that hangs, fails, dies or is somebody else's: the job runs, and its record says why."""

import os
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator
from errno import ENOSPC
from pathlib import Path

import pytest

from slurm_ext.node.mps import notes as mps_notes
from slurm_ext.node.mps import registry as mps_registry
from slurm_ext.node.mps.rules import DEVICES, MEMORY, PIPE
from tests.mps_program import CONTROL
from tests.mps_standin import Client
from tests.node.by_hand import wait_for
from tests.node.by_mps import MpsNode

MakeMps = Callable[..., MpsNode]


@pytest.fixture
def node(make_mps: MakeMps) -> MpsNode:
    """A node whose hooks do not wait for clients."""
    return make_mps(**{"mps.drain_s": 0.05})


def _refused(node: MpsNode, job: int, why: str) -> None:
    """The job gets none, its record says why, and nothing is left of the attempt."""
    assert node.start(job) == {}
    (said,) = node.end(job)
    node.hurry(20.0)
    node.end(job)
    assert why in said
    assert said.endswith("; plain time slicing")
    assert node.remains() == []


def test_a_hung_daemon_harms_neither_job_nor_hook(node: MpsNode) -> None:
    """A new job runs without, the old one keeps what it has; the last epilog ends it by force."""
    pipe = node.start(1)[PIPE]
    client = Client(pipe)
    for pid in node.daemons():
        os.kill(pid, signal.SIGSTOP)
    node.hurry(0.6)
    assert node.start(2) == {}
    assert "does not answer" in node.end(2)[0]
    assert len(node.ours()) == 2
    node.hurry(4.0)
    assert node.end(1) == []
    assert (node.ours(), node.remains()) == ([], [])
    client.close()


@pytest.mark.parametrize("how", ["hang", "fail"])
def test_a_daemon_that_does_not_start(node: MpsNode, how: str) -> None:
    """In time or not at all; the next job tries again."""
    node.misbehave(start=how)
    node.hurry(1.0 if how == "hang" else 20.0)
    _refused(node, 1, "did not start in time")
    node.misbehave(start="")
    assert node.start(2) != {}
    assert node.end(2) == []


def test_one_that_comes_up_late_is_not_left_behind(make_mps: MakeMps) -> None:
    """Its job has gone on without it; nobody uses it, so it is ended."""
    node = make_mps()
    node.start(1)
    node.end(1)
    node.misbehave(start="slow")
    node.hurry(0.5)
    assert node.start(2) == {}
    node.hurry(20.0)
    wait_for(lambda: node.end(2) and not node.ours() and not node.remains())


def test_without_the_program_there_is_none(node: MpsNode) -> None:
    """The record names what is missing."""
    (node.bin / CONTROL).unlink()
    _refused(node, 1, "is not there")


def test_mig_is_left_alone(node: MpsNode) -> None:
    """By what nvidia-smi tells of the GPU, or by the name that Slurm gives."""
    node.misbehave(cards=[f"{node.uuid}, 81559, Enabled, Default"])
    _refused(node, 1, "MIG is on")
    assert node.start(2, CUDA_VISIBLE_DEVICES="MIG-11-22") == {}
    assert "MIG is on" in node.end(2)[0]


def test_a_driver_that_hangs(node: MpsNode) -> None:
    """Without a UUID only GPU 0 can be named without doubt."""
    node.misbehave(smi="hang", start="fail")  # else other tests' GPU 0 would be this one's
    node.hurry(1.0)
    _refused(node, 1, "did not start in time")
    node.hurry(1.0)
    assert node.start(2, CUDA_VISIBLE_DEVICES="1") == {}
    assert "UUID" in node.end(2)[0]


def test_a_uuid_of_slurms_needs_no_driver(node: MpsNode) -> None:
    """nvidia-smi is silent: the job has its daemon, without a limit of memory that nobody knows."""
    node.misbehave(smi="hang")
    node.hurry(3.0)
    told = node.start(1, CUDA_VISIBLE_DEVICES=node.uuid)
    assert told[DEVICES] == node.uuid
    assert MEMORY not in told
    node.hurry(20.0)
    assert node.end(1) == []
    assert node.ours() == []


@pytest.mark.parametrize("name", ["GPU-../../x", "GPU-" + "a" * 61, "GPU-é", "0x1"])
def test_a_name_that_is_none_is_no_gpu(node: MpsNode, name: str) -> None:
    """It becomes neither a file's name nor an argument."""
    assert node.start(1, CUDA_VISIBLE_DEVICES=name) == {}
    assert "does not tell its UUID" in node.end(1)[0]
    assert not list(node.mps.glob("card*"))


def test_a_driver_that_hangs_after_it_answered(node: MpsNode) -> None:
    """The GPU keeps its name, and the jobs on it their one daemon."""
    first = node.start(1)
    node.misbehave(smi="hang")
    node.hurry(3.0)
    assert node.start(2) == first
    node.hurry(20.0)
    assert node.end(1) == node.end(2) == []
    assert (node.ours(), node.remains()) == ([], [])


@pytest.fixture
def foreign(node: MpsNode) -> Iterator[int]:
    """Pid of a control daemon of somebody else's on the same GPU."""
    folder = node.root / "theirs"
    folder.mkdir()
    env = {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}
    env["CUDA_VISIBLE_DEVICES"] = node.uuid
    subprocess.run([node.bin / CONTROL, "-d"], env=env, check=True)
    pid_file = folder / f"{CONTROL}.pid"
    wait_for(lambda: pid_file.exists() and pid_file.read_text())
    pid = int(pid_file.read_text())
    yield pid
    os.kill(pid, signal.SIGKILL)


def test_another_tools_mps_is_respected(node: MpsNode, foreign: int) -> None:
    """No second one on the GPU, and the first is not touched."""
    _refused(node, 1, f"another MPS control daemon serves it (pid {foreign})")
    assert Path(f"/proc/{foreign}/exe").exists()


def test_a_daemon_that_died_gets_a_successor_for_new_jobs(node: MpsNode) -> None:
    """The old jobs' records say it; their folder is not touched under them."""
    first = node.start(1)[PIPE]
    client = Client(first)
    os.kill(node.daemons()[0], signal.SIGKILL)
    second = node.start(2)[PIPE]
    assert second != first  # in a folder of its own
    assert Path(first).exists()
    assert ["was gone before the job ended" in said for said in node.end(1)] == [True]
    assert node.end(2) == []
    assert (node.ours(), node.remains()) == ([], [])
    client.close()


def test_after_a_reboot_nothing_is_believed(node: MpsNode) -> None:
    """Another boot: what the file names is some other process."""
    node.start(1)
    (known,) = node.mps.glob("*/daemon")
    for each in node.ours():
        os.kill(each.pid, signal.SIGKILL)
    wait_for(lambda: not node.ours())
    known.write_text(known.read_text().replace('"boot_id": "', '"boot_id": "x'))
    assert "was gone" in node.end(1)[0]
    assert node.remains() == []


def test_a_full_disk_means_no_mps(node: MpsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """No reference, no daemon: nobody would end it."""

    def full(*_: object, **__: object) -> None:
        raise OSError(ENOSPC, os.strerror(ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(mps_registry, "write_whole", full)
        _refused(node, 1, "No space left on device")
        patched.setattr(mps_notes, "_APPEND", os.O_WRONLY)  # it cannot be made either
        assert node.start(2) == {}
        assert node.end(2) == []  # not even room for that
    assert (node.ours(), node.remains()) == ([], [])


@pytest.mark.parametrize("kind", ["link", "fifo", "giant", "bytes"])
def test_a_hostile_log_is_data(node: MpsNode, kind: str) -> None:
    """It is the user's: neither followed, nor waited for, nor read to its end."""
    log = Path(node.start(1)["CUDA_MPS_LOG_DIRECTORY"]) / "control.log"
    log.unlink()
    if kind == "link":
        log.symlink_to("/etc/shadow")
    elif kind == "fifo":
        os.mkfifo(log)
    elif kind == "giant":
        with log.open("wb") as file:
            file.truncate(1 << 40)
    else:
        log.write_bytes(b"[2024-12-10 06:38:01.158 Control 64] fatal \xff\x1b]0;x\x07\n" * 9)
    said = node.end(1)
    assert len(said) <= 3
    assert all(text.isprintable() and text.isascii() for text in said)
    assert bool(said) == (kind == "bytes")


def test_what_the_user_does_to_his_folder_harms_nobody(node: MpsNode) -> None:
    """A forged pid file names a process that is not his daemon: it lives on."""
    pipe = Path(node.start(1)[PIPE])
    (pipe / f"{CONTROL}.pid").write_text(str(os.getpid()))
    (pipe / "control").unlink()
    node.hurry(4.0)
    assert node.start(2) == {}
    assert "does not answer" in node.end(2)[0]
    node.end(1)
    assert (node.ours(), node.remains()) == ([], [])


def test_the_hooks_end_well_when_all_of_it_hangs(node: MpsNode) -> None:
    """Prolog and epilog as slurmd runs them: exit status 0, nothing printed, and one record."""
    node.misbehave(smi="hang", start="hang")
    node.hurry(1.0)
    assert node.hooked(1) == {}
    node.hurry(20.0)
    node.epilog(1)
    assert any("did not start in time" in said for said in node.record(1)["probe"]["faults"])
    assert (node.ours(), node.remains()) == ([], [])


def test_the_lock_is_roots(node: MpsNode) -> None:
    """Nobody else can hold up a prolog."""
    node.start(1)
    (lock,) = node.mps.glob("*.lock")
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    node.end(1)
