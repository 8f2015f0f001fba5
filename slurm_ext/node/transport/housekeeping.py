"""Housekeeping of the node's spool: half-done jobs are finished, leftovers go, room is bounded."""

from __future__ import annotations

import json
import os
import time

from slurm_ext.node.common import log, state
from slurm_ext.node.common.files import read_bounded, unlink_quietly, write_whole
from slurm_ext.node.common.removal import remove_tree
from slurm_ext.node.common.spool_layout import REFUSED, is_key
from slurm_ext.node.record.compose import compose_record
from slurm_ext.node.record.reader import MAX_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slurm_ext.node.common.config import NodeConfig
    from slurm_ext.node.common.spool_layout import Spool

FINISH_S = 30.0  # of a round, for the records of half-done jobs
MPS_S = 5.0  # a prolog may wait for these locks
CLEAR_S = 2.0  # of a round, for what jobs left in their run folders
REMEMBER_S = 24 * 3600.0  # how long a finished job is known as such
STALE_S = 3600.0
MIB = 1024 * 1024


def housekeep(config: NodeConfig, spool: Spool, deliver: Callable[[NodeConfig], object]) -> bool:
    """One round over the whole spool; True if it ended by the clock and has more to do.

    A job that its sampler or an epilog holds is left alone. A task that fails is reported, and
    the others are done.
    """
    more = [
        attempt("half-done jobs", _finish, config, spool, deliver),
        attempt("MPS", _end_mps, config, spool),
        attempt("run folders", _clear_run_folders, spool),
        attempt("leftovers", _sweep, spool),
        attempt("room", keep_within, spool, config.spool_max_mib * MIB),
    ]
    return any(more)


def attempt(name: str, work: Callable[..., object], *arguments: object) -> object:
    """Do one task, and report a failure, so that the next one is done all the same."""
    try:
        return work(*arguments)
    # Whatever a user or a disk did to this task, the next one is done.
    except Exception as error:
        log.report(f"{name}: {type(error).__name__}: {error}")
        return None


def _finish(config: NodeConfig, spool: Spool, deliver: Callable[[NodeConfig], object]) -> bool:
    """Take up the jobs whose sampler or epilog is gone; True if time ended it."""
    deadline = time.monotonic() + FINISH_S
    for key in spool.unfinished():
        if time.monotonic() > deadline:
            return True
        attempt(key, _take_up, config, spool, key, deadline, deliver)
    return False


def _end_mps(config: NodeConfig, spool: Spool) -> None:
    if os.path.isdir(os.path.join(spool.root, "mps")):
        from slurm_ext.node.mps.release import sweep

        sweep(config, spool, time.monotonic() + MPS_S)


def _take_up(
    config: NodeConfig,
    spool: Spool,
    key: str,
    deadline: float,
    deliver: Callable[[NodeConfig], object],
) -> None:
    lock = state.lock(spool.state_file(key, "lock"))
    if lock is None:
        return
    with lock:
        if not _goes_on(spool, key):
            compose_record(config, spool, key, deadline)
            return
    from slurm_ext.node.sampling.start import start_sampler

    start_sampler(config, key, deadline, deliver)


def _goes_on(spool: Spool, key: str) -> bool:
    """True if the job may still run: no epilog ended it, and the machine did not restart."""
    if any(os.path.exists(spool.state_file(key, kind)) for kind in ("end", "record", "done")):
        return False
    job_state = state.load(spool, key, "json")
    return job_state is not None and job_state.get("boot_id") == state.boot_id()


def _clear_run_folders(spool: Spool) -> bool:
    """Remove the folders of jobs that have ended; True if time ended it."""
    deadline = time.monotonic() + CLEAR_S
    for _, name, age_s in _aged(spool.run):
        if is_key(name) and _is_over(spool, name, age_s):
            remove_tree(name, spool.run, deadline)
    return time.monotonic() > deadline


def _is_over(spool: Spool, key: str, age_s: float) -> bool:
    """True if no job needs its run folder. By our own marker, for a user sets a folder's time."""
    if any(os.path.exists(spool.state_file(key, kind)) for kind in ("json", "end", "record")):
        return False
    return os.path.exists(spool.state_file(key, "done")) or abs(age_s) > STALE_S


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

    Those of twice the size go before the others, whatever their age: a user with large records
    takes no room from those with small ones. What went is counted in the file `dropped`.
    """
    over = sum(size for _, _, size, _ in _records(spool)) - max_bytes
    for drop, counted in ((_drop_timeline, "timelines"), (_drop_record, "records")):
        for _, _, _, path in _records(spool) if over > 0 else ():
            if over <= 0:
                return
            freed = drop(path)
            over -= freed
            if freed:
                _count(spool, counted)


def _records(spool: Spool) -> list[tuple[int, float, int, str]]:
    """Records by size in powers of two, the largest first, then by age."""
    records = []
    for path, name, age_s in _aged(spool.out):
        if name.endswith((".json", REFUSED)):
            size = os.lstat(path).st_size
            records.append((-size.bit_length(), -age_s, size, path))
    return sorted(records)


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
