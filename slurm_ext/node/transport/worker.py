"""One worker a node, in the background: half-done jobs are finished, records are delivered.

Ends when nothing waits, or at the end of its life; the next hook starts another. A node that was
cut off keeps trying, ever more slowly, and delivers when it can.
"""

from __future__ import annotations

import os
import time

from slurm_ext.node.common import log, state
from slurm_ext.node.common.daemonize import daemonize
from slurm_ext.node.common.files import sync_folder
from slurm_ext.node.common.spool_layout import REFUSED, Spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from slurm_ext.node.common.config import NodeConfig

NAME = "dlqueue-ship"
LIFE_S = 24 * 3600.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
MOST_FAILURES = 3  # in a row, of one round: then it is not the record
RECORD_PAUSE_S = 0.005  # at most 200 records/s: a node that returns must not drown the advisor


def start_transport_worker(config: NodeConfig, deadline: float) -> None:
    """Leave the worker behind, unless this node has one."""
    if (
        daemonize(NAME, lambda: deliver_records(config), max(0.05, deadline - time.monotonic()))
        is None
    ):
        log.report("the transport did not start in time")


def deliver_records(config: NodeConfig, life_s: float = LIFE_S) -> None:
    """Work until nothing is left to do; does nothing if another worker is at it."""
    spool = Spool(config.spool_dir)
    end_s = state.uptime_s() + life_s
    while state.uptime_s() < end_s:
        lock = state.lock(os.path.join(spool.root, "ship.lock"))
        if lock is None:
            return
        with lock:
            lock.sign()
            _work(config, spool, end_s)
        # A record that came after the last look, whose own worker found this lock taken.
        if not _left_to_do(config, spool):
            return


def _work(config: NodeConfig, spool: Spool, end_s: float) -> None:
    """Deliver first, then keep house: nothing that a job leaves behind holds up a record."""
    from slurm_ext.node.transport.housekeeping import attempt, housekeep

    pause_s, failed = FIRST_PAUSE_S, set[str]()
    while state.uptime_s() < end_s and not os.path.exists(config.kill_file):
        names = sorted(_waiting(spool), key=failed.__contains__)
        if attempt("transport", _deliver, config, spool, names, failed):
            pause_s = FIRST_PAUSE_S
        more = housekeep(config, spool, deliver_records)
        if not (more or _left_to_do(config, spool)):
            return
        if set(_waiting(spool)) <= set(names):  # else a record was made just now
            time.sleep(pause_s)
            pause_s = min(LONGEST_PAUSE_S, pause_s * 2)


def _deliver(config: NodeConfig, spool: Spool, names: list[str], failed: set[str]) -> int:
    """Send the records, and return how many went; one that fails does not hold up the others.

    Ends when a few in a row fail, which come last the next time. One that is refused for good is
    put aside, where it counts against the spool's size. Raises UndeliveredError if nobody is there.
    """
    from slurm_ext.node.transport import deliver

    waiting, delivered, failures = list(names), 0, 0
    if names:  # what is sent must not be composed again after a power failure
        sync_folder(spool.out)
    while waiting and failures < MOST_FAILURES:
        with deliver.open_channel(config) as send:
            try:
                while waiting:
                    path = os.path.join(spool.out, waiting.pop(0))
                    send(path)
                    os.unlink(path)
                    delivered, failures = delivered + 1, 0
                    time.sleep(RECORD_PAUSE_S)
            except deliver.RecordRejectedError as error:
                log.report(f"transport: {error}; it is kept as {path}{REFUSED}")
                os.replace(path, path + REFUSED)
            except deliver.RecordRefusedError as error:
                log.report(f"transport: {error}")
            except deliver.UndeliveredError as error:
                log.report(f"transport: {error}")
                failed.add(os.path.basename(path))
                failures += 1
    return delivered


def _left_to_do(config: NodeConfig, spool: Spool) -> bool:
    """Records to deliver, or ended jobs whose record is not made yet (an epilog may be at it)."""
    if os.path.exists(config.kill_file):
        return False
    return bool(_waiting(spool) or spool.keys("end", "record"))


def _waiting(spool: Spool) -> list[str]:
    """File names of the records to deliver, oldest first."""
    try:
        with os.scandir(spool.out) as entries:
            entries_by_age = [(e.stat(follow_symlinks=False).st_mtime, e.name) for e in entries]
    except OSError:
        return []
    return [name for _, name in sorted(entries_by_age) if name.endswith(".json") and name[0] != "."]
