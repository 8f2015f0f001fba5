"""Outcome of a run, from the epilog's environment and the controller's answer. Pure.

slurmd's own exit code is stale for cancelled and timed-out jobs (measured on 22.05: 0:0), so that
zero alone is no proof of success; the controller's is right while the job is still COMPLETING.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_ENDED = {
    "COMPLETED": "COMPLETED",
    "FAILED": "FAILED",
    "TIMEOUT": "TIMEOUT",
    "DEADLINE": "TIMEOUT",
    "OUT_OF_MEMORY": "OUT_OF_MEMORY",
    "CANCELLED": "CANCELLED",
    "PREEMPTED": "CANCELLED",
    "NODE_FAIL": "NODE_FAIL",
    "BOOT_FAIL": "NODE_FAIL",
    "REQUEUED": "REQUEUED",
}
_REASONS = {"TimeLimit": "TIMEOUT", "OutOfMemory": "OUT_OF_MEMORY", "NodeDown": "NODE_FAIL"}
_SIGTERM = 15
_SIGHUP = 1  # what Slurm notes itself, on a job's other nodes too, where it lost one (22.05)
_SIGKILL = 9  # Slurm ends so what outlasts SIGTERM, the kernel what needs too much, a job itself
_OOM_STATUS = 125  # what Slurm notes as the signal of a step that ran out of memory
_NO_STATUS = 126  # low bits of Slurm's NO_VAL: it found a job missing, this run of it or the last


def outcome(
    end: Mapping[str, Any] | None,
    facts: Mapping[str, Any] | None,
    *,
    restart: int,
    rebooted: bool,
) -> dict[str, object]:
    """The record's `outcome`; `end` None: no epilog came, `facts` None: no controller answered.

    A controller that calls the job running has lost its end (it was killed), and knows no status.
    """
    requeued = facts is not None and (facts["restarts"] or 0) > restart
    facts = None if facts and facts["state"] == "RUNNING" else facts
    status = _status(end, facts)
    state = "REQUEUED" if requeued else _state(end, facts, status, rebooted=rebooted)
    is_known = status is not None and not requeued
    return {
        "state": state,
        "exit_code": status >> 8 & 0xFF if is_known and status is not None else None,
        "signal": status & 0x7F if is_known and status is not None else None,
        "source": "node" if end is None else "epilog",
    }


def _state(
    end: Mapping[str, Any] | None,
    facts: Mapping[str, Any] | None,
    status: int | None,
    *,
    rebooted: bool,
) -> str:
    if facts and facts["state"] in _ENDED:
        return _ENDED[facts["state"]]
    if facts and facts["reason"] in _REASONS:
        return _REASONS[facts["reason"]]
    if end is None:
        return "NODE_FAIL" if rebooted else "UNKNOWN"
    return _from_status(status, facts)


def _from_status(status: int | None, facts: Mapping[str, Any] | None) -> str:
    if status is None or (status == 0 and facts is None):
        return "UNKNOWN"
    if status == 0:
        return "COMPLETED"
    signal = status & 0x7F
    if signal == _OOM_STATUS:
        return "OUT_OF_MEMORY"
    if signal in (_SIGHUP, _SIGKILL) and facts is None:
        return "UNKNOWN"
    # Slurm gives a reason to what failed by itself, and none to what scancel ended: a shell whose
    # child got the signal first ends by an exit status of its own.
    from_outside = facts["reason"] == "None" if facts else signal == _SIGTERM
    return "CANCELLED" if from_outside else "FAILED"


def _status(end: Mapping[str, Any] | None, facts: Mapping[str, Any] | None) -> int | None:
    """The job's wait status, the controller's before slurmd's; None where nobody knows."""
    status = facts["exit_code"] if facts else None
    if status is None:
        status = end.get("status") if end else None
    return None if status is None or int(status) & 0x7F == _NO_STATUS else int(status)
