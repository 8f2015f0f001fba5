"""A job's run record in Slurm's own words, and its place in the spool."""

import re
from pathlib import Path
from typing import Any

from slurm_ext.core.files import replace_file
from slurm_ext.core.records import Outcome
from slurm_ext.history.ingest.job_decisions import SubmittedJob
from slurm_ext.slurm import JobInfo

EARLY_S, LATE_S = 1.5, 1.5  # slurmctld sets the submit time, in whole seconds, after the plugin ran
_OUTCOMES = {"BOOT_FAIL": Outcome.NODE_FAIL, "DEADLINE": Outcome.TIMEOUT}
_OUTCOMES |= {"PREEMPTED": Outcome.CANCELLED}


def record_of(
    job: JobInfo, node: str, cluster: str, token: str | None, *, nodes: int = 1
) -> dict[str, Any]:
    """The spool record of one of a job's `nodes` as squeue saw it; null is what nobody measured."""
    limit = job.time_limit_minutes
    identity = identity_of(job, cluster, node)
    return {
        "v": 1,
        "kind": "run",
        "record_id": name_of(identity),
        "identity": identity,
        "allocation": {
            "cpus": None if job.cpus is None else max(1, job.cpus // nodes),
            "num_nodes": nodes,
            "time_limit_s": None if limit is None else 60 * limit,
        },
        "times": times_of(job),
        "outcome": {
            "state": outcome_of(job.state),
            "exit_code": job.exit_code,
            "signal": job.exit_signal,
            "source": "reconcile",
        },
        "host": {},
        "counters": [],
        "timeline": None,
        "corunners": [],
        "decision": token,
        "probe": {"summaries": [], "faults": []},
    }


def submitted(job: JobInfo) -> SubmittedJob:
    """The job as the ledger asks for it."""
    submit_s = job.submit_time_s or 0
    return SubmittedJob(
        job_id=job.array_job_id or job.job_id,
        uid=job.user_id,
        job_name=job.name,
        early_s=submit_s - LATE_S,
        late_s=submit_s + EARLY_S,
        requeued=job.restarts > 0,
    )


def identity_of(job: JobInfo, cluster: str, node: str) -> dict[str, Any]:
    """A record's section `identity`."""
    return {
        "cluster": cluster,
        "job_id": job.job_id,
        "restart": job.restarts,
        "node": node,
        "user": job.user_name,
        "uid": job.user_id,
        "account": job.account or None,
        "partition": job.partition or None,
        "job_name": job.name,
        "work_dir": job.work_dir or None,
        "array_job_id": job.array_job_id,
        "array_task_id": job.array_task_id,
    }


def times_of(job: JobInfo) -> dict[str, Any]:
    """A record's section `times`, of a job that ended."""
    start_s, end_s = job.start_time_s, job.end_time_s
    return {
        "submit_s": job.submit_time_s,
        "start_s": start_s,
        "end_s": end_s,
        "elapsed_s": None if start_s is None or end_s is None else max(0, end_s - start_s),
    }


def outcome_of(state: str) -> str:
    """A record's state for a base state of Slurm's."""
    is_outcome = state in Outcome.__members__
    return Outcome(state).value if is_outcome else _OUTCOMES.get(state, Outcome.UNKNOWN).value


def name_of(identity: dict[str, Any]) -> str:
    """The only name that a record of this identity may have."""
    named = {name: str(identity.get(name)) for name in ("cluster", "job_id", "restart", "node")}
    return record_id(**named)


def record_id(*, cluster: str, job_id: str, restart: str, node: str) -> str:
    """A record's name as nodes make it (node/common/spool_layout.py), safe whatever its parts."""
    return re.sub(r"[^A-Za-z0-9_.+-]", "_", f"{cluster[:80]}-{job_id}-{restart}-{node[:80]}")


def put(spool: Path, name: str, raw: bytes) -> None:
    """The record as `name`.json in the spool, safe on disk when this returns. Raises OSError."""
    spool.mkdir(parents=True, exist_ok=True)
    replace_file(spool / f"{name}.json", raw)
