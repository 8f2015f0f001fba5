"""Another tool's MPS is recognised by its program, its user and its devices; a name is nothing."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.node.common import signals
from slurm_ext.node.mps import program
from slurm_ext.node.mps.processes import foreign, running_processes
from slurm_ext.node.mps.program import GenuineMps, device_of
from slurm_ext.node.mps.rules import SmiGpu, faults
from tests.mps_program import CONTROL
from tests.node.by_hand import wait_for
from tests.node.by_mps import MpsNode

USER: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []}
Start = Callable[..., int]


@pytest.fixture
def genuine(short_folder: Path) -> Path:
    """A program of root's that is called as NVIDIA's is: a shell, which can wait."""
    path = short_folder / CONTROL
    shutil.copy("/bin/dash", path)
    path.chmod(0o755)
    return path


@pytest.fixture
def start(only_mps: None) -> Iterator[Start]:
    """`start(program, **options)`: pid of a process with `-d` among its arguments."""
    children: list[subprocess.Popen[bytes]] = []

    def run(path: Path, **options: Any) -> int:
        argv = [str(path), "-c", "read line", "-d"]
        child: subprocess.Popen[bytes] = subprocess.Popen(
            argv, env={}, cwd="/", stdin=subprocess.PIPE, **options
        )
        children.append(child)
        pid = children[-1].pid
        comm = Path(f"/proc/{pid}/comm")
        wait_for(lambda: comm.read_text().startswith("nvidia-cuda-mps"))
        return pid

    yield run
    for child in children:
        child.kill()
        child.communicate()


def _found(device: int | None = None, control: str = "/nowhere/mps") -> list[int]:
    running = running_processes(GenuineMps(control, device))
    return foreign("/nowhere", "0", None, running)


@pytest.mark.root
def test_a_name_alone_is_nothing(genuine: Path, start: Start) -> None:
    """Neither a user's own file nor one that others may write is NVIDIA's, whoever runs it."""
    mine, open_to_all = genuine.with_name("mine"), genuine.with_name("open")
    for folder in (mine, open_to_all):
        folder.mkdir()
        shutil.copy(genuine, folder / CONTROL)
    os.chown(mine / CONTROL, 65534, 65534)
    (open_to_all / CONTROL).chmod(0o777)
    pids = {
        start(folder / CONTROL, **options)
        for folder in (mine, open_to_all)
        for options in ({}, USER)
    }
    assert not pids & set(_found())


@pytest.mark.root
def test_roots_daemon_counts_a_users_does_not(genuine: Path, start: Start) -> None:
    """Of the same program: a user who runs NVIDIA's file has no GPU by that."""
    system, user = start(genuine), start(genuine, **USER)
    found = _found()
    assert system in found
    assert user not in found


@pytest.mark.root
def test_a_users_daemon_counts_by_the_device_that_it_holds(genuine: Path, start: Start) -> None:
    """With the GPU's device file open, and of no other device."""
    number = Path("/dev/full").stat().st_rdev
    with Path("/dev/full").open("rb") as device, Path("/dev/zero").open("rb") as other:
        holds = start(genuine, **USER, stderr=device)
        holds_not = start(genuine, **USER, stderr=other)
        assert holds in _found(number)
        assert holds_not not in _found(number)
        assert holds not in _found(None)  # the GPU has no device file: nobody holds it


@pytest.mark.root
def test_a_crowd_of_users_processes_is_not_looked_into(
    genuine: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only so many are, and root's are found beside them."""
    monkeypatch.setattr(program, "MOST_USERS", 2)
    looked: list[int] = []
    monkeypatch.setattr(program, "_holds", lambda pid, _: looked.append(pid))
    for _ in range(5):
        start(genuine, **USER)
    system = start(genuine)
    assert system in _found(1)
    assert len(looked) == 2


def test_a_script_counts_where_the_settings_name_one(make_mps: Callable[..., MpsNode]) -> None:
    """A wrapper of root's: its interpreter, as no other file, stands for it."""
    node = make_mps()
    control = node.bin / CONTROL
    env = {"CUDA_MPS_PIPE_DIRECTORY": str(node.root), "CUDA_MPS_LOG_DIRECTORY": str(node.root)}
    subprocess.run([control, "-d"], env=env, check=True)
    pid_file = node.root / f"{CONTROL}.pid"
    wait_for(lambda: pid_file.exists() and pid_file.read_text())
    pid = int(pid_file.read_text())
    try:
        assert pid in _found(control=str(control))
        assert pid not in _found(control="/bin/true")
        assert pid not in _found(control=os.devnull)
    finally:
        os.kill(pid, 9)


def test_the_device_of_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the driver's number of the UUID, else by Slurm's index; none where there is no file."""
    folder = tmp_path / "0000:01:00.0"
    folder.mkdir()
    (folder / "information").write_text(
        "Model: \t H100\nGPU UUID: \t GPU-1\nDevice Minor: \t ull\n"
    )
    monkeypatch.setattr(program, "GPUS", str(tmp_path))
    monkeypatch.setattr(program, "DEVICE", "/dev/f{}")
    full = Path("/dev/full").stat().st_rdev
    assert device_of("0", SmiGpu("GPU-1", 1, False, "")) == full
    assert device_of("ull", SmiGpu("GPU-2", 1, False, "")) == full
    assert device_of("0", SmiGpu()) is None


def test_a_signal_goes_to_nobody_else() -> None:
    """Only if the process is still the one that is meant when its descriptor is held."""
    child = subprocess.Popen(["/bin/sleep", "100"])
    signals.send(child.pid, 9, lambda: False)
    assert child.poll() is None
    signals.send(child.pid, 9, lambda: True)
    assert child.wait() == -9
    signals.send(child.pid, 9, lambda: True)  # gone: nothing happens


def test_a_log_line_without_a_name_is_read() -> None:
    """The user writes this log as he likes."""
    assert faults("[2024-12-10 06:38:01.158  ] a fatal exception") == [
        ("2024-12-10 06:38:01.158", ": a fatal exception")
    ]
