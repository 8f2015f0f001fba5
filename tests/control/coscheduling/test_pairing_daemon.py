"""`dlqueue control --pairs` from within: the kill file, failing rounds, a look without a trace."""

import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.coscheduling import daemon as coscheduling_daemon
from slurm_ext.control.coscheduling.jobs import BeginTimeHold
from slurm_ext.control.coscheduling.pair_memory import PairingFolder, PairMemory
from slurm_ext.core.errors import SlurmError
from slurm_ext.core.gpu_sharing import RelativeSpeed, SoloProfile, SpeedBasis
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm import JobInfo, MemoryClient, NodeInfo
from tests.whole import until

WAITS = JobInfo(
    job_id=7, name="x", state="PENDING", cpus=1, comment="dlqueue=share", node_count=1, priority=9
)
RUNS = [
    JobInfo(job_id=n, state="RUNNING", cpus=1, nodes="n1", name="y", comment="dlqueue=share")
    for n in (1, 2)
]


class Bad:
    """Knows that everybody hurts everybody."""

    def __init__(self, _state_dir: Path) -> None:
        pass

    def __call__(self) -> "Bad":
        """The newest of it."""
        return self

    def speed(
        self, job: SoloProfile, beside: Sequence[SoloProfile], device: str = "cpu"
    ) -> RelativeSpeed:
        """Less than half of what it has alone."""
        return RelativeSpeed(mean=0.4, low=0.4, high=0.5, evidence=SpeedBasis.PAIR)

    def held(self, key: str) -> float:
        """Of no job."""
        return 0.0


@pytest.fixture(autouse=True)
def bad(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something is at stake; jobs of which nothing is known are not put off."""
    monkeypatch.setattr(coscheduling_daemon, "ServedSlowdowns", Bad)


def settings_of(tmp_path: Path) -> Settings:
    """Acting, ten rounds a second."""
    values: dict[str, Any] = {
        "sharing.pairing": "act",
        "sharing.interval_s": 0.1,
        "paths.state_dir": str(tmp_path),
        "paths.kill_file": str(tmp_path / "off"),
        "node.spool_dir": str(tmp_path / "spool"),
    }
    return Settings(values=values)


def cluster() -> MemoryClient:
    """One full node, and a job that waits."""
    nodes = (NodeInfo(name="n1", cpus=2, mem_mib=1, state="ALLOCATED"),)
    return MemoryClient(known_jobs=(*RUNS, WAITS), known_nodes=nodes)


def ended_when(happened: Any) -> threading.Thread:
    """Sends SIGTERM to ourselves as soon as that is true."""

    def wait() -> None:
        try:
            until(happened, "it never happened")
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_it_frees_everybody_when_told_to_end(tmp_path: Path) -> None:
    """SIGTERM: the last thing that Slurm hears is that the job may start."""
    client = cluster()
    thread = ended_when(lambda: ("delay", (7,), 120) in client.asked)
    coscheduling_daemon.pair(settings_of(tmp_path), client)
    thread.join()
    assert client.asked[-1] == ("delay", (7,), 0)
    assert PairingFolder(tmp_path).told() is None


def test_the_kill_file_frees_everybody_and_stops_all(tmp_path: Path) -> None:
    """While it is there, nobody is put off."""
    client, off = cluster(), tmp_path / "off"

    def freed() -> bool:
        if ("delay", (7,), 120) in client.asked:
            off.touch()
        return client.asked[-1:] == [("delay", (7,), 0)]

    thread = ended_when(freed)
    coscheduling_daemon.pair(settings_of(tmp_path), client)
    thread.join()
    assert client.asked == [("delay", (7,), 120), ("delay", (7,), 0)]


def test_what_a_killed_one_left_is_freed_at_the_start(tmp_path: Path) -> None:
    """Before the first round."""
    folder = PairingFolder(tmp_path)
    folder.path.mkdir()
    folder.keep(PairMemory(leases={"5.0": BeginTimeHold(until_s=1.0, node="n1")}))
    client = cluster()
    assert coscheduling_daemon.restore(settings_of(tmp_path), client) == 1
    assert client.asked == [("bind", 5, None), ("delay", (5,), 0)]


def test_rounds_that_fail_free_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Slurmctld that answers no more: the third failure gives up what was put off."""
    client = cluster()

    def fail(_self: MemoryClient) -> tuple[JobInfo, ...]:
        raise SlurmError("squeue", 1, "Unable to contact slurm controller")

    def failed() -> bool:
        if ("delay", (7,), 120) in client.asked:
            monkeypatch.setattr(MemoryClient, "jobs", fail)
        return client.asked[-1:] == [("delay", (7,), 0)]

    thread = ended_when(failed)
    coscheduling_daemon.pair(settings_of(tmp_path), client)
    thread.join()
    assert caplog.text.count("this round failed") >= 3


def test_a_look_leaves_no_trace(tmp_path: Path) -> None:
    """--once says what would be done; nothing is written, nothing asked of Slurm."""
    client = cluster()
    told = coscheduling_daemon.once(settings_of(tmp_path), client)
    assert [one["job"] for one in told["waiting"]] == ["7.0"]
    assert client.asked == []
    assert list(tmp_path.iterdir()) == []
