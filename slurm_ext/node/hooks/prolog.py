"""Before the job: its own folder, and a sampler that outlives this script."""

from __future__ import annotations

import os
import time

from slurm_ext.node.common import job, state
from slurm_ext.node.common.spool_layout import Spool, key_of, make_run_dir
from slurm_ext.node.sampling.start import start_sampler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from slurm_ext.node.common.config import NodeConfig

_NVIDIA = "/proc/driver/nvidia/gpus"


def prolog(config: NodeConfig, env: Mapping[str, str]) -> None:
    """Prepare one job; a second call for the same job finds everything in place.

    A job whose comment says dlqueue=off leaves no trace. Raises OSError and the like: the caller
    reports them and the job runs unmeasured.
    """
    deadline = time.monotonic() + config.prolog_budget_s * 0.8
    if job.opted_out(env):
        return
    spool = Spool(config.spool_dir)
    spool.prepare()
    restart = job.restart_count(env)
    key = key_of(job.job_id(env), restart)
    _note(config, spool, key, env)
    make_run_dir(spool, key, job.number(env, "SLURM_JOB_UID", os.geteuid()) or 0)
    start_sampler(config, key, deadline, _deliver)
    from slurm_ext.node.transport.worker import start_transport_worker

    start_transport_worker(config, deadline)
    if config.mps_mode == "act":
        from slurm_ext.node.mps.acquire import acquire

        acquire(config, spool, key, env, deadline)


def _deliver(config: NodeConfig) -> None:
    from slurm_ext.node.transport.worker import deliver_records

    deliver_records(config)


def _note(config: NodeConfig, spool: Spool, key: str, env: Mapping[str, str]) -> None:
    """Write who the job is, unless an earlier call did."""
    done = spool.state_file(key, "done")
    if os.path.exists(done):  # Slurm began to count its jobs anew
        os.unlink(done)
    if os.path.exists(spool.state_file(key, "json")):
        return
    state.save(spool, key, "json", first_state(config, env), durable=False)
    state.reserve(spool, key)


def first_state(config: NodeConfig, env: Mapping[str, str]) -> dict[str, object]:
    """State of a job before it runs."""
    return {
        "identity": job.identity(env, config.cluster, job.restart_count(env)),
        "allocation": job.allocation(env),
        "host": host_facts(),
        "head": job.is_head_node(env),
        "lends": job.lends_share(env),
        "keeps": job.keeps_cores(env),
        "boot_id": state.boot_id(),
        "started_s": round(time.time(), 3),
        "started_uptime_s": state.uptime_s(),
    }


def host_facts() -> dict[str, object]:
    """Facts of the machine for the record."""
    pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": os.cpu_count(),
        "mem_bytes": pages * page_bytes,
        "boot_id": state.boot_id(),
        "kernel": os.uname().release,
        "gpus": _gpu_models(),
    }


def _gpu_models() -> list[str]:
    """Names of the NVIDIA GPUs, as their driver lists them."""
    models = []
    try:
        for slot in sorted(os.listdir(_NVIDIA)):
            with open(f"{_NVIDIA}/{slot}/information", encoding="ascii", errors="replace") as file:
                lines = [line for line in file if line.startswith("Model:")]
            models += [line.partition(":")[2].strip() for line in lines]
    except OSError:
        pass  # no driver, no NVIDIA GPU
    return models
