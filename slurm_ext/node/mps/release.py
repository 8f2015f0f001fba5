"""In the epilog and after crashes: report faults of a job's MPS daemon, and end unused ones."""

from __future__ import annotations

import os
import time

from slurm_ext.node.common import log, state
from slurm_ext.node.mps import notes, processes, registry, rules
from slurm_ext.node.mps.child import NOBODY, Owner
from slurm_ext.node.mps.daemon import MpsDaemon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_ext.node.common.config import NodeConfig
    from slurm_ext.node.common.spool_layout import Spool
    from slurm_ext.node.mps.registry import MpsSlot


def release(config: NodeConfig, spool: Spool, key: str) -> None:
    """Note faults of the job's daemon, and that the job does not use it any more. No waiting."""
    for slot in registry.slots(spool):
        if key not in slot.users():
            continue
        try:
            for text in _befell(config, slot, key):
                notes.report(spool, key, text)
        # A hook's fault is never the job's: the record is written whatever this was.
        except Exception as error:
            log.report(f"{key}: MPS: {type(error).__name__}: {error}")
        registry.drop(slot, key)


def sweep(config: NodeConfig, spool: Spool, deadline: float, wait_s: float = 0.0) -> None:
    """End the daemons that no job uses: after the last one, and after whatever crash."""
    for slot in registry.slots(spool):
        try:
            _sweep(config, spool, slot, deadline, wait_s)
        except Exception as error:  # as above, and the next hook tries again
            log.report(f"MPS: {slot.folder}: {type(error).__name__}: {error}")


def _befell(config: NodeConfig, slot: MpsSlot, key: str) -> list[str]:
    """Sentences for the job's record: faults in the logs since it joined, a daemon that died."""
    reference, facts = registry.reference(slot, key), registry.load_daemon(slot) or {}
    gpu, uid = facts.get("gpu", os.path.basename(slot.folder)), _uid_of(slot)
    others = registry.other_users(slot, key)
    faults = rules.faults(notes.log_since(slot, reference, uid))
    sentences = [rules.fault_message(gpu, when, what, others) for when, what in faults]
    if not sentences and not _lives(config, slot, reference, facts):
        sentences.append(notes.DAEMON_GONE.format(gpu))
    return sentences


def _lives(
    config: NodeConfig, slot: MpsSlot, reference: dict[str, Any], facts: dict[str, Any]
) -> bool:
    """True if the daemon that the job joined still runs."""
    if facts.get("number") == reference.get("number"):
        return processes.is_alive(facts["pid"], facts["start"])
    owner = Owner(_uid_of(slot), NOBODY, None)
    return (
        MpsDaemon(slot, reference.get("number", 0), owner, config.mps_control).process() is not None
    )


def _uid_of(slot: MpsSlot) -> int:
    return int(slot.folder.rpartition("-")[2])


def _sweep(config: NodeConfig, spool: Spool, slot: MpsSlot, deadline: float, wait_s: float) -> None:
    for key in slot.users():
        if not _runs(spool, key):
            registry.drop(slot, key)
    if slot.users():
        return
    lock = state.lock(slot.lock, min(wait_s, max(0.0, deadline - time.monotonic())))
    if lock is None:
        return  # its holder starts a daemon for a job, or ends this one
    with lock:
        if not slot.users():
            _end(config, spool, slot, deadline)


def _runs(spool: Spool, key: str) -> bool:
    """True if the job may still run: its state is there, and no file says that it ended."""
    ended = any(os.path.exists(spool.state_file(key, kind)) for kind in ("end", "record", "done"))
    return not ended and os.path.exists(spool.state_file(key, "json"))


def _end(config: NodeConfig, spool: Spool, slot: MpsSlot, deadline: float) -> None:
    """Every daemon of the slot, then its folder; left to the next hook if one does not end."""
    uid = _uid_of(slot)
    gid = int((registry.load_daemon(slot) or {}).get("gid", NOBODY))
    for number in slot.numbers():
        daemon = MpsDaemon(slot, number, Owner(uid, gid, None), config.mps_control)
        if not daemon.end(config.mps_drain_s, deadline):
            log.report(f"MPS: {slot.folder}/{number}: does not end; the next hook tries again")
            return
    registry.remove(spool, slot, deadline)
