"""The elastic loop beside a cluster of records, for its tests."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from slurm_ext.control.elastic.elastic_loop import ElasticLoop
from slurm_ext.control.loops.loop_state import LoopState, cluster_state
from slurm_ext.control.loops.planned_loop import PlannedAction
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm.in_memory import MemoryClient
from slurm_ext.slurm.records import JobInfo, NodeInfo

NOW_S = 1e6
STEP = {"nodes": 1, "local": 128, "compute_s": 0.1, "sync_s": 0.0}
REPORT = {
    "v": 1,
    "left": 1e6,
    "limits": {"initial": 128, "most": 4096, "local_least": 16, "local_most": 512},
    "noise": {"square": 1.0, "variance": 100.0},
}


def job(number: int, gpus: int, folder: Path, bounds: str = "1-8", **more: Any) -> JobInfo:
    """A waiting job with a task for each GPU."""
    fields: dict[str, Any] = {
        "job_id": number,
        "user_id": os.getuid(),
        "state": "PENDING",
        "partition": "p",
        "work_dir": str(folder),
        "requeues": True,
        "gpus": gpus,
        "tasks": gpus,
        "cpus": 2 * gpus,
        "node_count": 1,
        "priority": 100,
        "reason": "Resources",
        "comment": f"DLQUEUE_ELASTIC={bounds}",
        "submit_time_s": number,
    }
    return JobInfo(**(fields | more))


def running(
    number: int, gpus: int, folder: Path, bounds: str = "1-8", steps: tuple[int, ...] = (1, 2)
) -> JobInfo:
    """A running job that has measured steps."""
    report = REPORT | {"steps": [STEP | {"gpus": step} for step in steps]}
    (folder / f"dlqueue-elastic-{number}.json").write_text(json.dumps(report))
    return job(number, gpus, folder, bounds, state="RUNNING", reason="None")


def state_of(folder: Path) -> LoopState:
    """State of the loop."""
    state = cluster_state(folder, "elastic")
    state.path.mkdir(parents=True, exist_ok=True)
    return state


def loop_of(
    folder: Path, *jobs: JobInfo, nodes: int = 2, **settings: Any
) -> tuple[ElasticLoop, MemoryClient]:
    """A loop, and its cluster of nodes of four GPUs."""
    known = tuple(
        NodeInfo(name=f"n{n}", cpus=16, mem_mib=1, gres={"gpu": 4}, state="IDLE", partitions=("p",))
        for n in range(nodes)
    )
    safe = {"SLURM_VERSION": "24.11.5"}
    client = MemoryClient(known_jobs=jobs, known_nodes=known, known_config=safe, obeys=True)
    values = {f"elastic.{key}": value for key, value in settings.items()}
    values["paths.state_dir"] = str(folder)
    return ElasticLoop(Settings(values=values), client, state_of(folder)), client


def kept(folder: Path) -> dict[str, Any]:
    """Notes that undo the changes."""
    return state_of(folder).load(dict)


def words(planned: PlannedAction) -> tuple[Any, ...]:
    """An action as people and the journal see it."""
    sizes = (dict(planned.before), dict(planned.after))
    return (planned.subject, planned.job_id, planned.done, planned.why, *sizes)


def change(client: MemoryClient, number: int, **fields: Any) -> None:
    """Something happens to a job."""
    client.known_jobs = tuple(
        replace(info, **fields) if info.job_id == number else info for info in client.known_jobs
    )
