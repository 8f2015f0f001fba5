"""In the epilog and after crashes: what befell a job's MPS daemon, and the end of unused ones."""

from __future__ import annotations

import os
import time

from slurm_ext.node.common import log, state
from slurm_ext.node.mps import notes, processes, rules
from slurm_ext.node.mps import registry as kept
from slurm_ext.node.mps.child import NOBODY, Owner
from slurm_ext.node.mps.daemon import Daemon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_ext.node.common.config import Config
    from slurm_ext.node.common.spool_layout import Spool
    from slurm_ext.node.mps.registry import Place


def leave(config: Config, spool: Spool, key: str) -> None:
    """Note what befell the job's daemon, and that the job does not use it any more. No waiting."""
    for place in kept.places(spool):
        if key not in place.users():
            continue
        try:
            for text in _befell(config, place, key):
                notes.say(spool, key, text)
        # A hook's fault is never the job's: the record is written whatever this was.
        except Exception as error:
            log.line(f"{key}: MPS: {type(error).__name__}: {error}")
        kept.drop(place, key)


def sweep(config: Config, spool: Spool, deadline: float, wait_s: float = 0.0) -> None:
    """End the daemons that no job uses: after the last one, and after whatever crash."""
    for place in kept.places(spool):
        try:
            _sweep(config, spool, place, deadline, wait_s)
        except Exception as error:  # as above, and the next hook tries again
            log.line(f"MPS: {place.folder}: {type(error).__name__}: {error}")


def _befell(config: Config, place: Place, key: str) -> list[str]:
    """What the job's record is to say: faults in the logs since it joined, a daemon that died."""
    mine, known = kept.reference(place, key), kept.load_daemon(place) or {}
    gpu, uid = known.get("gpu", os.path.basename(place.folder)), _uid_of(place)
    others = kept.neighbours(place, key)
    found = rules.faults(notes.log_since(place, mine, uid))
    said = [rules.fault_said(gpu, when, what, others) for when, what in found]
    if not said and not _lives(config, place, mine, known):
        said.append(notes.GONE.format(gpu))
    return said


def _lives(config: Config, place: Place, mine: dict[str, Any], known: dict[str, Any]) -> bool:
    """Whether the daemon that the job joined still runs."""
    if known.get("number") == mine.get("number"):
        return processes.lives(known["pid"], known["start"])
    owner = Owner(_uid_of(place), NOBODY, None)
    return Daemon(place, mine.get("number", 0), owner, config.mps_control).process() is not None


def _uid_of(place: Place) -> int:
    return int(place.folder.rpartition("-")[2])


def _sweep(config: Config, spool: Spool, place: Place, deadline: float, wait_s: float) -> None:
    for key in place.users():
        if not _runs(spool, key):
            kept.drop(place, key)
    if place.users():
        return
    held = state.lock(place.lock, min(wait_s, max(0.0, deadline - time.monotonic())))
    if held is None:
        return  # its holder starts a daemon for a job, or ends this one
    with held:
        if not place.users():
            _end(config, spool, place, deadline)


def _runs(spool: Spool, key: str) -> bool:
    """Whether the job may still run: its state is there, and nobody spoke of its end."""
    ended = any(os.path.exists(spool.state_file(key, kind)) for kind in ("end", "record", "done"))
    return not ended and os.path.exists(spool.state_file(key, "json"))


def _end(config: Config, spool: Spool, place: Place, deadline: float) -> None:
    """Every daemon of the place, then its folder; kept for the next hook where one does not end."""
    uid = _uid_of(place)
    gid = int((kept.load_daemon(place) or {}).get("gid", NOBODY))
    for number in place.numbers():
        daemon = Daemon(place, number, Owner(uid, gid, None), config.mps_control)
        if not daemon.end(config.mps_drain_s, deadline):
            log.line(f"MPS: {place.folder}/{number}: does not end; the next hook tries again")
            return
    kept.remove(spool, place, deadline)
