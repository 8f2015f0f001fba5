"""Housekeeping of the node's spool: half-done jobs are finished, leftovers go, room is bounded."""

from __future__ import annotations

import json
import os
import time

from slurm_ext.node.common import log, state
from slurm_ext.node.common.files import read_bounded, remove_tree, unlink_quietly, write_whole
from slurm_ext.node.common.spool_layout import REFUSED, is_key
from slurm_ext.node.record.compose import compose_record
from slurm_ext.node.record.reader import MAX_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurm_ext.node.common.config import NodeConfig
    from slurm_ext.node.common.spool_layout import Spool

FINISH_S = 30.0
MPS_S = 5.0  # a prolog may wait for these locks
REMEMBER_S = 24 * 3600.0  # how long a finished job is known as such
STALE_S = 3600.0
MIB = 1024 * 1024


def housekeep(config: NodeConfig, spool: Spool) -> None:
    """One round over the whole spool; a job that its sampler or an epilog holds is left alone."""
    for key in spool.unfinished():
        try:
            _take_up(config, spool, key)
        except OSError as error:
            log.report(f"{key}: {error}")
    if os.path.isdir(os.path.join(spool.root, "mps")):
        from slurm_ext.node.mps.release import sweep

        sweep(config, spool, time.monotonic() + MPS_S)
    _sweep(spool)
    keep_within(spool, config.spool_max_mib * MIB)


def _take_up(config: NodeConfig, spool: Spool, key: str) -> None:
    lock = state.lock(spool.state_file(key, "lock"))
    if lock is None:
        return
    with lock:
        if not _goes_on(spool, key):
            compose_record(config, spool, key, time.monotonic() + FINISH_S)
            return
    from slurm_ext.node.sampling.start import start_sampler

    start_sampler(config, key, time.monotonic() + FINISH_S)


def _goes_on(spool: Spool, key: str) -> bool:
    """True if the job may still run: no epilog ended it, and the machine did not restart."""
    if any(os.path.exists(spool.state_file(key, kind)) for kind in ("end", "record", "done")):
        return False
    job_state = state.load(spool, key, "json")
    return job_state is not None and job_state.get("boot_id") == state.boot_id()


def _sweep(spool: Spool) -> None:
    """Remove files that no unfinished job needs and that are old."""
    unfinished = set(spool.unfinished())
    for path, name, age_s in _aged(spool.state):
        stem, _, kind = name.rpartition(".")
        orphan = (
            kind in ("lock", "reserve", "mps", "tmp") and stem not in unfinished and age_s > STALE_S
        )
        if orphan or (kind == "done" and age_s > REMEMBER_S):
            unlink_quietly(path)
    for path, name, age_s in _aged(spool.out):
        if name.endswith(".tmp") and age_s > STALE_S:
            unlink_quietly(path)
    for _, name, age_s in _aged(spool.run):
        if is_key(name) and name not in unfinished and age_s > STALE_S:
            remove_tree(name, spool.run, time.monotonic() + FINISH_S)


def _aged(folder: str) -> Iterator[tuple[str, str, float]]:
    """Path, name and seconds since the last change of a folder's entries."""
    now = time.time()
    try:
        with os.scandir(folder) as entries:
            changes = [(e.path, e.name, e.stat(follow_symlinks=False).st_mtime) for e in entries]
    except OSError:
        return
    for path, name, changed_s in changes:
        yield path, name, now - changed_s


def keep_within(spool: Spool, max_bytes: int) -> None:
    """Keep undelivered and refused records within `max_bytes`: first time lines go, then records.

    What went is counted in the file `dropped`: nothing disappears unseen.
    """
    records = sorted((changed_s, path) for path, changed_s in _records(spool))
    over = sum(os.path.getsize(path) for _, path in records) - max_bytes
    for drop, counted in ((_drop_timeline, "timelines"), (_drop_record, "records")):
        for _, path in records:
            if over <= 0:
                return
            freed = drop(path)
            over -= freed
            if freed:
                _count(spool, counted)


def _records(spool: Spool) -> Iterator[tuple[str, float]]:
    kinds = (".json", REFUSED)
    return ((path, -age) for path, name, age in _aged(spool.out) if name.endswith(kinds))


def _drop_timeline(path: str) -> int:
    """Bytes freed."""
    try:
        raw = read_bounded(path, MAX_BYTES)
        record = json.loads(raw)
        if record["timeline"] is None:
            return 0
        record["timeline"] = None
        small = json.dumps(record, separators=(",", ":")).encode()
        changed = os.stat(path).st_mtime_ns
        write_whole(path, small)
        os.utime(path, ns=(changed, changed))  # its place in the queue
    except (OSError, ValueError, KeyError):
        return 0
    return len(raw) - len(small)


def _drop_record(path: str) -> int:
    """Bytes freed."""
    size = os.path.getsize(path)
    unlink_quietly(path)
    return size


def _count(spool: Spool, what: str) -> None:
    path = os.path.join(spool.root, "dropped")
    try:
        counts = json.loads(read_bounded(path, 4096))
    except (OSError, ValueError):
        counts = {}
    counts[what] = counts.get(what, 0) + 1
    try:
        write_whole(path, json.dumps(counts).encode())
    except OSError as error:
        log.report(f"dropped one of {what}, and cannot count it: {error}")
