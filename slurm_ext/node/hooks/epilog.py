"""After the job: its last counters, the probe's summaries and its outcome become one record."""

from __future__ import annotations

import os
import time

from slurm_ext.node.common import job, log, state
from slurm_ext.node.common.files import unlink_quietly
from slurm_ext.node.common.spool_layout import Spool, split_key
from slurm_ext.node.hooks.ended_run import ended_run_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from slurm_ext.node.common.config import NodeConfig

_FLUSH_SHARE = 0.3  # of the budget, for the sampler's last words


def epilog(config: NodeConfig, env: Mapping[str, str]) -> None:
    """Finish one job; a second call for the same job finds nothing to do.

    Raises OSError and the like: a later hook finishes the job from what is on the disk.
    """
    start = time.monotonic()
    deadline = start + config.epilog_budget_s * 0.8
    if job.opted_out(env):
        return
    spool = Spool(config.spool_dir)
    spool.prepare()
    job_id, restart = job.job_id(env), job.restart_count(env)
    key = ended_run_key(spool, job_id, restart, lambda: _facts(config, job_id, deadline))
    with_mps = os.path.isdir(os.path.join(spool.root, "mps"))
    if with_mps:
        from slurm_ext.node.mps.release import release, sweep

        release(config, spool, key)
    try:
        if not os.path.exists(spool.state_file(key, "done")):
            _close(config, spool, key, env, deadline)
    finally:
        if with_mps:
            sweep(config, spool, deadline, wait_s=1.0)
        from slurm_ext.node.transport.worker import start_transport_worker

        start_transport_worker(config, deadline)


def _facts(config: NodeConfig, job_id: int, deadline: float) -> Mapping[str, Any] | None:
    from slurm_ext.node.record.squeue import query_job

    return query_job(config, job_id, wait_s=(deadline - time.monotonic()) / 2)


def _close(
    config: NodeConfig, spool: Spool, key: str, env: Mapping[str, str], deadline: float
) -> None:
    unlink_quietly(spool.state_file(key, "reserve"))  # its room is for the record
    state.save(spool, key, "end", end_facts(config, env, split_key(key)[1]), durable=False)
    with_lock = stop_sampler(spool, key, config.epilog_budget_s * _FLUSH_SHARE)
    if with_lock is None:
        log.report(f"{key}: its sampler does not end; left for a later hook")
        return
    with with_lock:
        from slurm_ext.node.record.compose import compose_record

        compose_record(config, spool, key, deadline)


def end_facts(config: NodeConfig, env: Mapping[str, str], restart: int) -> dict[str, object]:
    """Facts of the end from slurmd, with the job's identity in case its state is lost."""
    return {
        "identity": job.identity(env, config.cluster, restart),
        "allocation": job.allocation(env),
        "head": job.is_head_node(env),
        "boot_id": state.boot_id(),
        "status": job.number(env, "SLURM_JOB_EXIT_CODE"),
        "ended_s": round(time.time(), 3),
        "uptime_s": state.uptime_s(),
    }


def stop_sampler(spool: Spool, key: str, wait_s: float) -> state.Lock | None:
    """Ask the job's sampler for a last sample, and take its lock over; kill it if it hangs."""
    path = spool.state_file(key, "lock")
    lock = state.lock(path)
    if lock is None:
        _signal(path, 15)
        import slurm_ext.node.record.compose  # noqa: F401 - what comes next, while the sampler looks

        lock = state.lock(path, wait_s)
    if lock is None:
        _signal(path, 9)
        lock = state.lock(path, 0.2)
    return lock


def _signal(path: str, number: int) -> None:
    """Send a signal to the process that signed the lock at `path` and holds it."""
    pid = state.signed_pid(path)
    if pid is not None:
        from slurm_ext.node.common.signals import send

        send(pid, number, lambda: state.signed_pid(path) == pid and state.is_held(path))
