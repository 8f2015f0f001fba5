"""In the prolog: an NVIDIA MPS daemon for a job that shares its GPU, started or found again.

One control daemon a GPU and user, as that user. Whatever fails here, the job runs with plain time
slicing and its record says why. A job counts as a client from its reference's first to its last
rename (see `mps.registry`), whichever hook is killed when.
"""

from __future__ import annotations

import os
import time

from slurm_ext.node.common import job, state
from slurm_ext.node.mps import notes, processes, program, registry, rules
from slurm_ext.node.mps.child import NOBODY, Owner
from slurm_ext.node.mps.daemon import MpsDaemon, query_gpu

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from slurm_ext.node.common.config import NodeConfig
    from slurm_ext.node.common.spool_layout import Spool
    from slurm_ext.node.mps.registry import MpsSlot

MOMENT_S = 0.05
RESERVE_S = 0.2  # of the prolog's time


class NoMpsError(Exception):
    """This job gets no MPS; the message, a clause, says why."""


def acquire(
    config: NodeConfig, spool: Spool, key: str, env: Mapping[str, str], deadline: float
) -> None:
    """Have a daemon for the job's GPU, if it shares one, and write it down for its task prolog."""
    gpu = rules.shared_gpu(env, config.mps_jobs)
    if gpu is None:
        return
    try:
        _join(config, spool, key, env, gpu, deadline - RESERVE_S)
    # A hook's fault is never the job's: it runs with plain time slicing.
    except Exception as error:
        why = str(error) if isinstance(error, NoMpsError) else f"{type(error).__name__}: {error}"
        notes.report(spool, key, f"MPS: none on GPU {gpu}: {why}; plain time slicing")


def _join(
    config: NodeConfig, spool: Spool, key: str, env: Mapping[str, str], gpu: str, deadline: float
) -> None:
    if processes.inside_job(job.job_id(env)):
        raise NoMpsError("its daemon would end with this job (PrologFlags has RunInJob)")
    owner = _owner(env)
    card = _card(config, spool, gpu, owner, _part(deadline, 0.4))
    slot = registry.slot_of(spool, card.uuid or gpu, owner.uid)
    _check(config, spool, slot, gpu, card)
    registry.make(spool, slot)
    lock = state.lock(slot.lock, _part(deadline, 0.5) - time.monotonic())
    if lock is None:
        raise NoMpsError("another hook is still busy with its daemon")
    with lock:
        registry.make(spool, slot)  # the holder before us may have removed it
        number = _have_daemon(config, spool, slot, owner, card.uuid or gpu, key, deadline)
    limits = rules.limits(env, card, config.mps_most_percent, config.mps_memory_share)
    limits["gpu"] = card.uuid or gpu
    message = {**limits, "pipe": slot.pipe(number), "log": slot.log(number)}
    try:
        notes.write_for_task(spool, key, message)
    except BaseException:
        registry.forget(slot, key)
        raise
    notes.append_note(spool, key, "given", limits)


def _card(
    config: NodeConfig, spool: Spool, gpu: str, owner: Owner, deadline: float
) -> rules.SmiGpu:
    """The GPU as nvidia-smi describes it, now or earlier in this boot: its name stays."""
    own = gpu if rules.is_uuid(gpu) else None  # Slurm 26.05 names GPUs so
    if own is None and not gpu.isdecimal():
        return rules.SmiGpu()
    card, stored = (
        query_gpu(config.mps_control, gpu, owner, deadline),
        registry.load_card(spool, gpu),
    )
    if card.uuid is None:
        return rules.SmiGpu(*stored) if stored else rules.SmiGpu(own)
    fields = [card.uuid, card.mib, card.mig, card.mode]
    if fields != stored:
        registry.save_card(spool, gpu, fields)
    return card


def _owner(env: Mapping[str, str]) -> Owner:
    uid, gid = job.number(env, "SLURM_JOB_UID"), job.number(env, "SLURM_JOB_GID")
    if uid is None:
        raise NoMpsError("Slurm does not tell the job's user")
    owner = Owner(uid, NOBODY if gid is None else gid, job.text(env, "SLURM_JOB_USER"))
    if not owner.possible():
        raise NoMpsError(f"slurmd is not root and cannot start it as uid {uid}")
    return owner


def _check(config: NodeConfig, spool: Spool, slot: MpsSlot, gpu: str, card: rules.SmiGpu) -> None:
    """Raise NoMpsError if this GPU cannot have a daemon of ours."""
    if not os.access(config.mps_control, os.X_OK):
        raise NoMpsError(f"{config.mps_control} is not there")
    others = _others(config, spool, gpu, card)
    if others:  # one that is only just ending or starting is not there a moment later
        time.sleep(MOMENT_S)
        others = [pid for pid in _others(config, spool, gpu, card) if pid in others]
    why = rules.refusal(gpu, card, slot.pipe(999), others)
    if why is None and card.mode.lower() == "exclusive_process":
        beside = [
            daemon
            for other, daemon in registry.living(spool)
            if other.folder != slot.folder and daemon.get("gpu") == card.uuid
        ]
        if beside:
            why = "another user's MPS has it, in compute mode Exclusive_Process"
    if why is not None:
        raise NoMpsError(why)


def _others(config: NodeConfig, spool: Spool, gpu: str, card: rules.SmiGpu) -> list[int]:
    """Pids of other tools' control daemons on the GPU."""
    genuine = program.GenuineMps(config.mps_control, program.device_of(gpu, card))
    ours = [daemon["pid"] for _, daemon in registry.living(spool)]
    running = processes.running_processes(genuine)
    index = program.index_of(gpu, card)
    return processes.foreign(registry.mps_root(spool), index, card.uuid, running, ours)


def _have_daemon(
    config: NodeConfig,
    spool: Spool,
    slot: MpsSlot,
    owner: Owner,
    device: str,
    key: str,
    deadline: float,
) -> int:
    """Number of the daemon that the job may use: the one that runs, or a new one."""
    if key in slot.users():  # a second prolog of the same job
        return int(registry.reference(slot, key)["number"])
    number = max(slot.numbers(), default=0)
    daemon = MpsDaemon(slot, number, owner, config.mps_control)
    if number and daemon.process() is not None:
        registry.add(slot, key, number)
        try:
            return _adopt(daemon, device, deadline)
        except BaseException:
            registry.forget(slot, key)
            raise
    for other in slot.users():
        notes.report(spool, other, notes.DAEMON_GONE.format(device))
    return _start(MpsDaemon(slot, number + 1, owner, config.mps_control), device, key, deadline)


def _adopt(daemon: MpsDaemon, device: str, deadline: float) -> int:
    """A daemon found at work, by whichever hook it was started. Raises NoMpsError."""
    if daemon.ask("get_server_list", _part(deadline, 0.5)) is None:
        raise NoMpsError("its control daemon does not answer")
    if daemon.in_fault(deadline):
        raise NoMpsError("its server waits for the clients of a faulty one to end")
    if registry.load_daemon(daemon.slot) is None:
        _save(daemon, device)
    return daemon.number


def _start(daemon: MpsDaemon, device: str, key: str, deadline: float) -> int:
    slot, owner = daemon.slot, daemon.owner
    registry.make_numbered(slot, daemon.number, owner.uid, owner.gid)
    registry.add(slot, key, daemon.number)  # before it starts: no other hook ends it now
    try:
        if daemon.start("0" if device.isdecimal() else device, _part(deadline, 0.85)) is None:
            raise NoMpsError("its control daemon did not start in time")
        _save(daemon, device)
    except BaseException:
        registry.forget(slot, key)
        daemon.end(0.0, deadline)
        raise
    return daemon.number


def _save(daemon: MpsDaemon, device: str) -> None:
    process = daemon.process()
    if process is None:
        raise NoMpsError("its control daemon ended at once")
    owner = daemon.owner
    facts: dict[str, Any] = {"pid": process.pid, "start": process.start, "number": daemon.number}
    facts.update(gpu=device, uid=owner.uid, gid=owner.gid, user=owner.user)
    registry.save_daemon(daemon.slot, facts)


def _part(deadline: float, share: float) -> float:
    """The moment at which `share` of the time left is over."""
    now = time.monotonic()
    return now + max(0.0, deadline - now) * share
