"""A small site for each of the five control loops: something to change, and a look at it."""

import json
import os
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.coscheduling import co_scheduling_loop
from slurm_ext.control.elastic import elastic_loop
from slurm_ext.control.energy import energy_loop
from slurm_ext.control.lending import node_loop
from slurm_ext.control.loops.control_loop import LoopKind
from slurm_ext.control.queue import queue_loop
from slurm_ext.core.gpu_sharing import RelativeSpeed, SoloProfile, SpeedBasis
from slurm_ext.core.settings.document import Settings
from slurm_ext.model.throughput.estimate_codec import write
from slurm_ext.node.common import state
from slurm_ext.node.common.spool_layout import Spool, make_run_dir
from slurm_ext.slurm import JobInfo, MemoryClient, NodeInfo, PowerCommand
from tests.builders import STORAGE_BOUND, estimate_of
from tests.whole import until

INTERVAL_S = 0.05
PHASE: dict[str, Any] = {
    "phase": "first_epoch",
    "epochs": 1,
    "samples": 400,
    "batches": 50,
    "wall_s": 4.0,
    "wait_s": 2.0,
    "step_s": 2.0,
    "workers": 2.0,
    "fetch_samples": 400,
    "fetch_wall_s": 7.6,
    "fetch_cpu_s": 7.4,
    "bytes_read": 1000,
    "main_cpu_s": 0.2,
}


Step = tuple[Callable[[], object], signal.Signals | None]


def signalled(*steps: Step) -> threading.Thread:
    """Wait for each condition and send its signal to this process; SIGTERM whatever happens."""

    def wait() -> None:
        try:
            for happened, number in steps:
                until(happened, "it never happened")
                if number is not None:
                    os.kill(os.getpid(), number)
        except AssertionError:
            os.kill(os.getpid(), signal.SIGTERM)
            raise

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@dataclass
class LoopSite:
    """One loop, its cluster, and whether the loop has changed anything on it."""

    kind: LoopKind
    folder: Path
    client: MemoryClient
    changed: Callable[[], bool]
    values: dict[str, Any] = field(default_factory=dict)

    def settings(self, mode: str = "act", **more: Any) -> Settings:
        """Many rounds a second."""
        values = {
            "paths.state_dir": str(self.folder / "state"),
            "paths.kill_file": str(self.kill_file),
            "node.spool_dir": str(self.folder / "spool"),
            self.kind.mode: mode,
            self.kind.interval: INTERVAL_S,
        }
        return Settings(values={**values, **self.values, **more})

    @property
    def kill_file(self) -> Path:
        """The site's kill file."""
        return self.folder / "off"


def queue(folder: Path) -> LoopSite:
    """A long job before a short one."""
    jobs = tuple(
        JobInfo(
            job_id=number,
            user_name="ann",
            name=f"j{number}",
            state="PENDING",
            partition="gpu",
            submit_time_s=1000 + number,
            time_limit_minutes=minutes,
            gpus=1,
            cpus=4,
            priority=5000,
            reason="Priority",
        )
        for number, minutes in ((1, 600), (2, 10))
    )
    config = {"PriorityType": "priority/multifactor"}
    client = MemoryClient(obeys=True, known_jobs=jobs, known_config=config)
    return LoopSite(
        kind=queue_loop.KIND,
        folder=folder,
        client=client,
        changed=lambda: any(job.nice for job in client.known_jobs),
    )


def elastic(folder: Path) -> LoopSite:
    """A job that waits for four GPUs and may start with one."""
    job = JobInfo(
        job_id=1,
        user_id=os.getuid(),
        user_name="ada",
        state="PENDING",
        partition="p",
        work_dir=str(folder),
        requeues=True,
        gpus=4,
        tasks=4,
        cpus=8,
        node_count=1,
        priority=100,
        reason="Resources",
        comment="DLQUEUE_ELASTIC=1-8",
        submit_time_s=1,
    )
    node = NodeInfo(name="n1", cpus=16, mem_mib=1, gres={"gpu": 8}, state="IDLE", partitions=("p",))
    client = MemoryClient(known_jobs=(job,), known_nodes=(node,), obeys=True)
    return LoopSite(
        kind=elastic_loop.KIND,
        folder=folder,
        client=client,
        changed=lambda: client.known_jobs[0].gpus != 4,
        values={"elastic.least_s": 0.0},
    )


class SleepingClient(MemoryClient):
    """Nodes sleep and wake at once."""

    def power(self, nodes: Sequence[str], state: PowerCommand) -> None:
        """Set the state that Slurm reports in the end."""
        word = "IDLE+POWERED_DOWN" if state is PowerCommand.DOWN else "IDLE"
        self.known_nodes = tuple(
            replace(node, state=word) if node.name in nodes else node for node in self.known_nodes
        )


def energy(folder: Path) -> LoopSite:
    """Nine idle nodes, woken at the end."""
    nodes = tuple(
        NodeInfo(name=f"n{at}", cpus=4, mem_mib=1000, state="IDLE", partitions=("main",))
        for at in range(9)
    )
    config = {"SuspendProgram": "/s", "ResumeProgram": "/r", "SuspendTime": "31536000 sec"}
    client = SleepingClient(known_nodes=nodes, known_config=config)
    values = {
        "energy.partitions": ["*"],
        "energy.min_idle_s": 0.0,
        "energy.min_off_s": 0.0,
        "energy.history_h": 0.0,
        "energy.wake_at_end": True,
    }
    return LoopSite(
        kind=energy_loop.KIND,
        folder=folder,
        client=client,
        changed=lambda: any("POWERED_DOWN" in node.state for node in client.known_nodes),
        values=values,
    )


class EverybodyHurts:
    """A slowdown model in which everybody hurts everybody."""

    def __init__(self, _state_dir: Path) -> None:
        pass

    def __call__(self) -> "EverybodyHurts":
        """The newest model."""
        return self

    def speed(
        self, job: SoloProfile, beside: Sequence[SoloProfile], device: str = "cpu"
    ) -> RelativeSpeed:
        """Less than half of what it has alone."""
        return RelativeSpeed(mean=0.4, low=0.4, high=0.5, evidence=SpeedBasis.PAIR)

    def held(self, key: str) -> float:
        """Memory of no job."""
        return 0.0


def pairs(folder: Path) -> LoopSite:
    """A full node, and a job that waits and would hurt the others."""
    waits = JobInfo(
        job_id=7,
        name="x",
        state="PENDING",
        cpus=1,
        comment="dlqueue=share",
        node_count=1,
        priority=9,
    )
    runs = [
        JobInfo(job_id=n, state="RUNNING", cpus=1, nodes="n1", name="y", comment="dlqueue=share")
        for n in (1, 2)
    ]
    nodes = (NodeInfo(name="n1", cpus=2, mem_mib=1, state="ALLOCATED"),)
    client = MemoryClient(known_jobs=(*runs, waits), known_nodes=nodes)

    def held() -> bool:
        delays = [what[2] for what in client.asked if what[0] == "delay"]
        return bool(delays and delays[-1])

    return LoopSite(
        kind=co_scheduling_loop.KIND,
        folder=folder,
        client=client,
        changed=held,
    )


def _curve() -> str:
    """What is known of the job: more workers make it faster."""
    return write(estimate_of(STORAGE_BOUND))


def allocator(folder: Path) -> LoopSite:
    """A job of this very process, whose loader's workers can be changed."""
    spool = Spool(str(folder / "spool"))
    spool.prepare()
    identity = {"job_id": 1, "uid": os.geteuid(), "node": "n1"}
    facts = {
        "identity": identity,
        "allocation": {"cpus": 1, "num_nodes": 1, "gpus": []},
        "boot_id": state.boot_id(),
    }
    state.save(spool, "1.0", "json", facts, durable=False)
    make_run_dir(spool, "1.0", os.geteuid())
    run_dir = Path(spool.run_dir("1.0"))
    loader = {
        "id": 0,
        "style": "map",
        "batch_size": 8,
        "user_num_workers": 2,
        "gate": 2,
        "most_workers": 8,
        "left_alone": None,
        "fallback": None,
        "phases": [PHASE],
    }
    summary = {
        "v": 1,
        "pid": os.getpid(),
        "rank": 0,
        "world_size": 1,
        "cores": 2,
        "node_cores": 2,
        "finished": False,
        "accelerator": None,
        "loaders": [loader],
    }
    (run_dir / "summary-0.json").write_text(json.dumps(summary))
    (run_dir / "curve").write_text(_curve())
    nodes = (NodeInfo(name="n1", cpus=4, mem_mib=1, state="MIXED"),)
    return LoopSite(
        kind=node_loop.KIND,
        folder=folder,
        client=MemoryClient(known_nodes=nodes),
        changed=(run_dir / "workers").exists,
        values={"control.allocator": "divide"},
    )


SITES: list[Callable[[Path], LoopSite]] = [allocator, pairs, queue, elastic, energy]


@pytest.fixture(params=SITES, ids=[make.__name__ for make in SITES])
def site(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> LoopSite:
    """Each of the five loops in turn."""
    monkeypatch.setattr(co_scheduling_loop, "ServedSlowdowns", EverybodyHurts)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    (tmp_path / "state").mkdir()
    made: LoopSite = request.param(tmp_path)
    return made
