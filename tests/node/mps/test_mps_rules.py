"""MPS as pure decisions: for whom, with which limits, and what a log tells."""

import subprocess

import pytest

from slurm_ext.node.mps import processes as mps_processes
from slurm_ext.node.mps.daemon import parse_gpu
from slurm_ext.node.mps.processes import MpsProcess, daemon_and_servers, foreign
from slurm_ext.node.mps.rules import (
    DEVICES,
    LOG,
    MEMORY,
    PERCENT,
    PIPE,
    SmiGpu,
    exports,
    fault_message,
    faults,
    limits,
    refusal,
    shared_gpu,
)

UUID = "GPU-8f6d2a1b-7777-4444-9999-0123456789ab"
CARD = SmiGpu(UUID, 80_000, False, "Default")
HALF = {DEVICES: "1", PERCENT: "50"}
GIVEN = {"pipe": "/p", "log": "/l", "gpu": UUID, "percent": 50.0, "mem_bytes": 8 * 1024**3}


@pytest.mark.parametrize(
    ("env", "jobs", "gpu"),
    [
        (HALF, "mps", "1"),
        ({DEVICES: "1"}, "mps", None),
        ({DEVICES: "1", PERCENT: "x"}, "mps", None),
        ({DEVICES: "1"}, "all", "1"),
        ({"SLURM_JOB_GPUS": "3", DEVICES: "0"}, "all", "3"),
        ({DEVICES: "0,1"}, "all", None),
        ({DEVICES: "NoDevFiles"}, "all", None),
        ({}, "all", None),
    ],
)
def test_whom_it_concerns(env: dict[str, str], jobs: str, gpu: str | None) -> None:
    """Jobs with one GPU, of the kind that the site named."""
    assert shared_gpu(env, jobs) == gpu


@pytest.mark.parametrize(
    ("gpu", "card", "foreigners", "word"),
    [
        ("MIG-12", SmiGpu(), [], "MIG"),
        ("0", SmiGpu(UUID, 1, True, ""), [], "MIG"),
        ("0", CARD, [7, 3], "pid 3, 7"),
        ("0", SmiGpu(UUID, 1, False, "Prohibited"), [], "Prohibited"),
        ("1", SmiGpu(), [], "UUID"),
    ],
)
def test_when_there_is_none(gpu: str, card: SmiGpu, foreigners: list[int], word: str) -> None:
    """The reason is named; the first one that holds."""
    assert word in (refusal(gpu, card, "/spool/mps/x/1/pipe", foreigners) or "")


def test_when_there_is_one() -> None:
    """Known by UUID, or the only index at which nothing can be mistaken."""
    assert refusal("1", CARD, "/spool", []) is None
    assert refusal("0", SmiGpu(), "/spool", []) is None
    assert "too long" in (refusal("0", CARD, "/s" * 50, []) or "")


def test_a_share_limits_threads_and_memory() -> None:
    """Slurm's percentage, and that share of the memory less a margin; a setting may lower it."""
    assert limits(HALF, CARD, 100, 0.95) == {"percent": 50, "mem_bytes": 38_000 * 1024**2}
    assert limits(HALF, CARD, 40, 0)["percent"] == 40
    assert limits(HALF, CARD, 60, 0) == {"percent": 50, "mem_bytes": None}


@pytest.mark.parametrize("env", [{DEVICES: "0"}, {DEVICES: "0", PERCENT: "100"}])
def test_without_a_share_there_is_no_limit(env: dict[str, str]) -> None:
    """A whole GPU, or nobody said how much of it."""
    assert limits(env, CARD, 100, 0.95) == {"percent": None, "mem_bytes": None}
    assert limits(HALF, SmiGpu(), 100, 0.95)["mem_bytes"] is None  # its memory is not known


def test_the_job_is_told_all_of_it() -> None:
    """By UUID: the daemon counts its GPUs from 0, the node does not."""
    told = [(PIPE, "/p"), (LOG, "/l"), (DEVICES, UUID), (PERCENT, "50"), (MEMORY, "0=8192M")]
    assert exports(GIVEN, {DEVICES: "1"}) == told
    assert exports(GIVEN, dict(told)) == told[:3]  # a second task: the same


@pytest.mark.parametrize(
    ("env", "names"),
    [
        ({PIPE: "/mine"}, set()),
        ({PERCENT: "20"}, {MEMORY}),
        ({PERCENT: "80"}, {PERCENT, MEMORY}),
        ({MEMORY: "0=4G"}, {PERCENT}),
        ({MEMORY: "0=9G"}, {PERCENT, MEMORY}),
        ({MEMORY: "rubbish"}, {PERCENT, MEMORY}),
    ],
)
def test_what_the_user_chose_is_only_tightened(env: dict[str, str], names: set[str]) -> None:
    """An MPS of the user's own is left alone altogether."""
    assert {name for name, _ in exports(GIVEN, env)} - {PIPE, LOG, DEVICES} == names


def test_faults_are_found_in_the_logs() -> None:
    """Lines as users published them, one a second; ordinary ones, `default` too, are none."""
    text = """
[2024-12-10 06:38:01.120 Control    64] Starting new server 92 for user 1001
[2024-12-10 06:38:01.127 Control    64] set_default_active_thread_percentage 50
[2024-12-10 06:38:01.130 Control    64] User did not send valid credentials
[2024-12-10 06:38:01.131 Server     92] Receive command failed, assuming client exit
[2024-12-10 06:38:01.158 Control    64] Server encountered a fatal exception. Shutting down
[2024-12-10 06:38:01.160 Control    64] Server 91 exited with status 1
[2024-12-10 06:38:02.170 Control    64] Server 92 exited with status 1
[2024-12-10 06:38:01.180 Control    64] Server 95 exited with status 0
garbage \x1b[2J fatal
"""
    assert faults(text) == [
        ("2024-12-10 06:38:01.158", "Control: Server encountered a fatal exception. Shutting down"),
        ("2024-12-10 06:38:02.170", "Control: Server 92 exited with status 1"),
    ]


def test_nobody_is_accused_without_proof() -> None:
    """The logs do not tell whose kernel it was."""
    assert "of this job or of a neighbour's (7, 8)" in fault_message("0", "t", "x", ["8", "7"])
    assert "neighbour" not in fault_message("0", "t", "x", [])


@pytest.mark.parametrize(
    ("said", "known"),
    [
        (f"{UUID}, 81559, Disabled, Default\n", (UUID, 81559, False, "Default")),
        (f"{UUID}, 81559, Enabled, Exclusive_Process", (UUID, 81559, True, "Exclusive_Process")),
        (f"{UUID}, [N/A], [N/A], Default", (UUID, None, False, "Default")),
        ("No devices were found\n", (None, None, False, "")),
        ("GPU-../../etc, 1, 2, 3", (None, None, False, "")),
        ("", (None, None, False, "")),
    ],
)
def test_what_nvidia_smi_prints(said: str, known: tuple[object, ...]) -> None:
    """A field that it cannot tell is left out; anything else than a card is no card."""
    card = parse_gpu(said)
    assert (card.uuid, card.mib, card.mig, card.mode) == known


def _process(pid: int, pipe: str | None, devices: str | None = None, parent: int = 1) -> MpsProcess:
    process = MpsProcess(pid, 5, 1000)
    process.pipe, process.devices, process.parent = pipe, devices, parent
    return process


def test_whose_daemon_it_is() -> None:
    """Foreign: not under our folder, and on this GPU or on all of them."""
    ours = _process(1, "/spool/mps/a-1000/1/pipe", UUID)
    all_gpus, other = _process(2, "/tmp/nvidia-mps"), _process(3, None, "0,2")
    by_prefix, by_index = _process(4, "/x", UUID[:12]), _process(5, "/x", "0, 1")
    found = [ours, all_gpus, other, by_prefix, by_index]
    assert foreign("/spool/mps", "1", UUID, found) == [2, 4, 5]
    assert foreign("/spool/mps", "1", None, [ours, other]) == []
    assert foreign("/spool/mps", None, UUID, [other, _process(6, "/x", "GPU-another")]) == [3]


def test_a_daemon_that_tells_nothing_serves_all_gpus() -> None:
    """An environment that is empty, or that we may not read."""
    assert foreign("/spool/mps", "1", UUID, [_process(1, None, None)]) == [1]


def test_a_process_that_is_gone_is_nobodys() -> None:
    """Between the list of processes and the look at one of them, it may end."""
    child = subprocess.Popen(["/bin/true"])
    child.wait()
    assert mps_processes._process(child.pid, lambda *_: True) is None
    assert not mps_processes.is_alive(child.pid, 1)


def test_a_servers_parent_tells_whose_it_is() -> None:
    """Also where it has an environment of its own."""
    daemon, server, stranger = _process(1, "/p"), _process(2, None, parent=1), _process(3, "/q")
    server.server = True
    assert daemon_and_servers("/p", 1000, [daemon, server, stranger]) == [daemon, server]
    assert daemon_and_servers("/p", 1001, [daemon, server, stranger]) == []
