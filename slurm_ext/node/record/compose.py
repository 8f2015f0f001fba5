"""Compose a job's one record in `out/` from what is on the disk.

The epilog does it, or any later hook where none came. The caller holds the job's lock. Each step
leaves the job either as it was or one step further, so that a crash anywhere ends in exactly one
record (see `spool_layout`).
"""

from __future__ import annotations

import os
import time

from slurm_ext.node.common import log, state
from slurm_ext.node.common.files import unlink_quietly
from slurm_ext.node.common.removal import remove_tree
from slurm_ext.node.common.spool_layout import record_id, split_key
from slurm_ext.node.counters.columns import TIMELINE, counter_rows
from slurm_ext.node.record import fields, squeue
from slurm_ext.node.record.outcome import outcome
from slurm_ext.node.record.summaries import collect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from slurm_ext.node.common.config import NodeConfig
    from slurm_ext.node.common.spool_layout import Spool

CLEAR_S = 0.2  # for the run folder: housekeeping removes what is left
_ENDING_S = 60.0  # KillWait is 30 s; a job that is cancelled while suspended ended long before
_CLOCKS_S = 2.0  # the controller's clock and the node's
_FILLED_IN = ("job_name", "array_job_id", "array_task_id")
_ALLOCATED = ("num_nodes", "num_tasks", "cpus_per_task", "time_limit_s")
_DIVIDED = ("cpus", "mem_bytes")  # the controller has those of all nodes


def compose_record(config: NodeConfig, spool: Spool, key: str, deadline: float) -> None:
    """Bring the job to its end: its record in `out/`, nothing else left. Raises OSError.

    `deadline` (monotonic) bounds the calls to other programs; writing is not cut short.
    """
    if os.path.exists(spool.state_file(key, "done")):
        _clear(spool, key, deadline)
        return
    record = state.load(spool, key, "record")
    if record is None:
        unlink_quietly(spool.state_file(key, "reserve"))
        record = _compose(config, spool, key, deadline)
        _write(spool, key, record)
    _publish(spool, key, record["record_id"])
    _clear(spool, key, deadline)


def _write(spool: Spool, key: str, record: dict[str, Any]) -> None:
    """The whole record; on a full disk a smaller one, for the totals matter most."""
    try:
        state.save(spool, key, "record", record, durable=True)
    except OSError as error:
        log.report(f"{key}: {error}; trying without time line")
        record["timeline"] = None
        record["probe"]["faults"].append("the node's disk was full: the time line is missing")
        state.save(spool, key, "record", record, durable=True)


def _publish(spool: Spool, key: str, name: str) -> None:
    """Hand the record over; from the first line on, this job never gets a second one.

    No wait for the disk: it keeps the order of names, and transport waits before it sends.
    """
    done = os.open(spool.state_file(key, "done"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.close(done)
    for kind in ("json", "end"):
        unlink_quietly(spool.state_file(key, kind))
    os.rename(spool.state_file(key, "record"), spool.out_file(name))


def _clear(spool: Spool, key: str, deadline: float) -> None:
    """Remove what is left of a job that has its record; `.done` stays for a while."""
    if os.path.exists(spool.state_file(key, "record")):  # stopped between `.done` and the rename
        _publish(spool, key, (state.load(spool, key, "record") or {})["record_id"])
    for kind in ("json", "end", "reserve", "lock", "mps"):
        unlink_quietly(spool.state_file(key, kind))
    if os.path.isdir(spool.run_dir(key)):
        remove_tree(key, spool.run, min(deadline, time.monotonic() + CLEAR_S))


def _compose(config: NodeConfig, spool: Spool, key: str, deadline: float) -> dict[str, Any]:
    kept = state.load(spool, key, "json") or {}
    end = state.load(spool, key, "end")
    job_id, restart = split_key(key)
    base = {**(end or {}), **kept}
    identity = base.get("identity") or _nameless(config, job_id, restart)
    left = collect(spool.run_dir(key), int(identity["uid"] or 0), deadline)
    mps, mps_faults = _mps(spool, key)
    facts = None
    if base.get("head", True):
        facts = squeue.query_job(config, job_id, wait_s=(deadline - time.monotonic()) / 2)
    rebooted = base.get("boot_id") not in (None, state.boot_id())
    place = kept.get("place") or {}
    allocation = _allocated(base.get("allocation") or {}, facts)
    allocation |= {"cpu_list": place.get("cpus"), "gpu_uuids": place.get("gpus")}
    return {
        "v": fields.VERSION,
        "kind": fields.KIND,
        "record_id": record_id(config.cluster, job_id, restart, str(identity["node"])),
        "identity": fields.pick("identity", _filled(identity, facts, _FILLED_IN)),
        "allocation": fields.pick("allocation", allocation),
        "times": fields.pick("times", _times(kept, end, facts, restart)),
        "outcome": fields.pick("outcome", outcome(end, facts, restart=restart, rebooted=rebooted)),
        "host": fields.pick("host", base.get("host") or {}),
        "counters": counter_rows(
            (kept.get("meter") or {}).get("totals", {}),
            gpus=bool((base.get("allocation") or {}).get("gpus")),
        ),
        "timeline": {
            "columns": list(TIMELINE),
            "rows": (kept.get("timeline") or {}).get("rows", []),
        },
        "corunners": [
            {
                "job_id": int(job),
                "overlap_s": round(overlap_s, 3),
                "shared": (kept.get("shared") or {}).get(job),
            }
            for job, overlap_s in (kept.get("corunners") or {}).items()
        ],
        "decision": left.decision,
        "mps": mps,
        "probe": {
            "summaries": left.summaries,
            "faults": [*left.faults, *mps_faults, *(kept.get("faults") or ())],
            "unprobed": kept.get("unprobed"),
        },
    }


def _mps(spool: Spool, key: str) -> tuple[dict[str, Any] | None, list[str]]:
    """The job's MPS daemon, and sentences on its faults."""
    if not os.path.exists(spool.state_file(key, "mps")):
        return None, []
    from slurm_ext.node.mps.notes import read_notes

    return read_notes(spool, key)


def _nameless(config: NodeConfig, job_id: int, restart: int) -> dict[str, Any]:
    """Identity by the key alone, where both state files are torn.

    Slurm's name of the node, whatever its host is called: the record's name is made of it.
    """
    node = os.environ.get("SLURMD_NODENAME") or os.uname().nodename.partition(".")[0]
    names = {"cluster": config.cluster, "job_id": job_id, "restart": restart, "node": node}
    return fields.pick("identity", names)


def _allocated(own: Mapping[str, Any], facts: Mapping[str, Any] | None) -> dict[str, Any]:
    """The controller's allocation, with this node's part of what it tells of the whole job.

    Its node count is of those still ending, so ours comes first.
    """
    filled = _filled(own, facts, _ALLOCATED)
    if own.get("num_nodes") is not None:
        filled["num_nodes"] = own["num_nodes"]
    nodes = max(1, filled.get("num_nodes") or 1)
    if filled.get("cpus") is not None and not own.get("of_node"):  # a prolog of before
        filled["cpus"] = max(1, filled["cpus"] // nodes)
    for name in _DIVIDED:
        if facts and facts[name] is not None and filled.get(name) is None:
            filled[name] = facts[name] // nodes
    return {**filled, "of_node": True}


def _filled(
    own: Mapping[str, Any], facts: Mapping[str, Any] | None, names: tuple[str, ...]
) -> dict[str, Any]:
    """`own`, overwritten by the controller's values where it answered."""
    newer = {name: facts[name] for name in names if facts[name] is not None} if facts else {}
    return {**own, **newer}


def _times(
    kept: Mapping[str, Any],
    end: Mapping[str, Any] | None,
    facts: Mapping[str, Any] | None,
    restart: int,
) -> dict[str, Any]:
    """Wall times as Slurm has them; the elapsed time is by a clock that nobody sets."""
    elapsed_s = kept.get("seen_s")
    if end and kept.get("boot_id") == end["boot_id"]:
        elapsed_s = round(max(0.0, end["uptime_s"] - kept["started_uptime_s"]), 3)
        if facts and facts["restarts"] == restart:
            elapsed_s = _unsuspended(elapsed_s, end["ended_s"], facts)
    return {
        "submit_s": facts["submit_s"] if facts else None,
        "start_s": kept.get("started_s"),
        "end_s": end["ended_s"] if end else None,
        "elapsed_s": elapsed_s,
    }


def _unsuspended(elapsed_s: float, ended_s: float, facts: Mapping[str, Any]) -> float:
    """The elapsed time without that in which Slurm had the job suspended.

    Slurm's own is without it; the job's last seconds, which come after Slurm's end, count here.
    """
    start_s, end_s, ran_s = facts["start_s"], facts["end_s"], facts["ran_s"]
    if None in (start_s, end_s, ran_s) or start_s > ended_s or squeue.is_taken_back(facts, ended_s):
        return elapsed_s
    counted_s = round(ran_s + min(max(0.0, ended_s - end_s), _ENDING_S), 3)
    return counted_s if counted_s + _CLOCKS_S < elapsed_s else elapsed_s
