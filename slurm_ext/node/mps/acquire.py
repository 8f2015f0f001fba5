"""In the prolog: an NVIDIA MPS daemon for a job that shares its GPU, started or found again.

One control daemon a GPU and user, as that user. Whatever fails here, the job runs with plain time
slicing and its record says why. A job counts as a client from its reference's first to its last
rename (see `mps.registry`), whichever hook is killed when.
"""

from __future__ import annotations

import os
import time

from slurm_ext.node.common import job, state
from slurm_ext.node.mps import notes, processes, registry, rules
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
    """Have a daemon for the job's GPU, where it shares one, and tell its task prolog."""
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
    owner = _owner(env)
    found = _card(config, spool, gpu, owner, _part(deadline, 0.4))
    slot = registry.slot_of(spool, found.uuid or gpu, owner.uid)
    _check(config, spool, slot, gpu, found)
    registry.make(spool, slot)
    held = state.lock(slot.lock, _part(deadline, 0.5) - time.monotonic())
    if held is None:
        raise NoMpsError("another hook is still busy with its daemon")
    with held:
        registry.make(spool, slot)  # the holder before us may have removed it
        number = _have_daemon(config, spool, slot, owner, found.uuid or gpu, key, deadline)
    given = rules.limits(env, found, config.mps_most_percent, config.mps_memory_share)
    given["gpu"] = found.uuid or gpu
    told = {**given, "pipe": slot.pipe(number), "log": slot.log(number)}
    try:
        notes.write_for_task(spool, key, told)
    except BaseException:
        registry.forget(slot, key)
        raise
    notes.append_note(spool, key, "given", given)


def _card(
    config: NodeConfig, spool: Spool, gpu: str, owner: Owner, deadline: float
) -> rules.SmiGpu:
    """The GPU as nvidia-smi describes it, now or earlier in this boot: its name stays."""
    if not gpu.isdecimal():
        return rules.SmiGpu()
    found, known = (
        query_gpu(config.mps_control, gpu, owner, deadline),
        registry.load_card(spool, gpu),
    )
    if found.uuid is None:
        return rules.SmiGpu(*known) if known else found
    told = [found.uuid, found.mib, found.mig, found.mode]
    if told != known:
        registry.save_card(spool, gpu, told)
    return found


def _owner(env: Mapping[str, str]) -> Owner:
    uid, gid = job.number(env, "SLURM_JOB_UID"), job.number(env, "SLURM_JOB_GID")
    if uid is None:
        raise NoMpsError("Slurm does not tell the job's user")
    owner = Owner(uid, NOBODY if gid is None else gid, job.text(env, "SLURM_JOB_USER"))
    if not owner.possible():
        raise NoMpsError(f"slurmd is not root and cannot start it as uid {uid}")
    return owner


def _check(config: NodeConfig, spool: Spool, slot: MpsSlot, gpu: str, found: rules.SmiGpu) -> None:
    """Raise NoMpsError if this GPU cannot have a daemon of ours."""
    if not os.access(config.mps_control, os.X_OK):
        raise NoMpsError(f"{config.mps_control} is not there")
    running, root = processes.running_processes(), registry.mps_root(spool)
    others = processes.foreign(root, gpu, found.uuid, running)
    if others:  # one that is only just ending or starting is not there a moment later
        time.sleep(MOMENT_S)
        running = processes.running_processes()
        others = [pid for pid in processes.foreign(root, gpu, found.uuid, running) if pid in others]
    why = rules.refusal(gpu, found, slot.pipe(999), others)
    if why is None and found.mode.lower() == "exclusive_process":
        beside = [each for each in processes.below(root, running) if each.devices == found.uuid]
        if any(not (each.pipe or "").startswith(slot.folder + "/") for each in beside):
            why = "another user's MPS has it, in compute mode Exclusive_Process"
    if why is not None:
        raise NoMpsError(why)


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
    registry.add(slot, key, daemon.number)  # before it starts: nobody ends it under us
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
    found = daemon.process()
    if found is None:
        raise NoMpsError("its control daemon ended at once")
    owner = daemon.owner
    known: dict[str, Any] = {"pid": found.pid, "start": found.start, "number": daemon.number}
    known.update(gpu=device, uid=owner.uid, gid=owner.gid, user=owner.user)
    registry.save_daemon(daemon.slot, known)


def _part(deadline: float, share: float) -> float:
    """The moment at which `share` of the time left is over."""
    now = time.monotonic()
    return now + max(0.0, deadline - now) * share
