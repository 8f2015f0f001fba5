"""The lender on the real kernel, version 1: two jobs of one core each, and what befalls them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from slurm_ext.control.allocator.undo_log import allocator_state, undo_left
from slurm_ext.control.lending.lender import Lender
from slurm_ext.node.common import state
from slurm_ext.node.common.spool_layout import Spool, make_run_dir
from tests.control.allocator.recorded_jobs import lender_of
from tests.control.cgroup_trees import CPUSETS, real_cpusets, removed
from tests.control.loop_sites import PHASE
from tests.whole import until

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        not (CPUSETS / "cpuset.cpus").exists() or len(os.sched_getaffinity(0)) < 2,
        reason="needs cgroup version 1 and two cores",
    ),
]
NODE, UID = f"dlqlender{os.getpid()}", os.geteuid()
OWNER, BORROWER = "1.0", "2.0"
# Writes no summary itself: the test does. SIGUSR1: it computes from now on, and sleeps no more.
TRAINING = """
import os, signal, sys, time
busy = sys.argv[1] == "busy"
def begin(*_):
    global busy
    busy = True
signal.signal(signal.SIGUSR1, begin)
lent = 0
print(flush=True)
while True:
    if not busy:
        time.sleep(0.01)
    if not lent and os.path.exists(sys.argv[2]):
        lent = os.fork()
        if not lent:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            while True:
                pass
"""


class Node:
    """Two jobs with their own cores, and a lender that is asked for rounds."""

    def __init__(self, folder: Path) -> None:
        self.spool = Spool(str(folder / "spool"))
        self.spool.prepare()
        self.groups: list[Path] = []
        self.jobs: dict[str, subprocess.Popen[bytes]] = {}
        self.lender: Lender | None = None
        self.said: dict[str, tuple[float, float]] = {}

    def start(self, key: str, core: str, work: str) -> None:
        """A job that trains on one core."""
        number = int(key.partition(".")[0])
        cpusets = real_cpusets(NODE, number, core, users="0-1")
        self.groups = list(dict.fromkeys([*self.groups, *cpusets]))
        identity = {"job_id": number, "uid": UID, "node": NODE}
        allocation = {"cpus": 1, "num_nodes": 1, "gpus": []}
        body = {"identity": identity, "allocation": allocation, "boot_id": state.boot_id()}
        state.save(self.spool, key, "json", body, durable=False)
        make_run_dir(self.spool, key, UID)
        env = {**os.environ, "SLURM_JOB_ID": str(number), "SLURMD_NODENAME": NODE}
        argv = [sys.executable, "-c", TRAINING, work, str(self.run_dir(key) / "lent")]
        join = f'echo $$ > {self.groups[-1]}/cgroup.procs; exec "$@"'
        child = subprocess.Popen(["/bin/sh", "-c", join, "x", *argv], env=env, stdout=-1)
        self.jobs[key] = child
        assert child.stdout is not None
        child.stdout.readline()

    def run_dir(self, key: str) -> Path:
        """The job's run folder."""
        return Path(self.spool.run_dir(key))

    def says(self, key: str, wait_share: float, rate: float) -> None:
        """Its probe's summary of now: so much of the time waited, so many samples a second."""
        began, now = self.said.setdefault(key, (time.time(), 0.0)), time.time()
        wall = now - began[0] + 1.0
        phase = {**PHASE, "wall_s": wall, "wait_s": wall * wait_share, "step_s": wall}
        phase |= {"samples": int(rate * wall * 1000) / 1000, "batches": int(rate * wall)}
        loader = {"id": 0, "gate": 1, "most_workers": 8, "user_num_workers": 1, "phases": [phase]}
        body = {"v": 1, "pid": self.jobs[key].pid, "ended_s": now, "finished": False}
        path = self.run_dir(key) / f"summary-{self.jobs[key].pid}.json"
        path.with_suffix(".new").write_text(json.dumps({**body, "loaders": [loader]}))
        path.with_suffix(".new").replace(path)

    def round(self) -> dict[int, str]:
        """A round some time after the last one, with fresh summaries."""
        time.sleep(0.45)
        for key, wait in ((OWNER, 0.0), (BORROWER, 0.9)):
            if self.jobs[key].poll() is None:
                self.says(key, wait, 100.0)
        if self.lender is None:
            self.lender = lender_of(self.spool, window_s=0.5, cooldown_s=5.0)
        return self.lender.round()

    def lent(self) -> int:
        """The pid of the lent worker that has the owner's core, once there is one."""
        assert self.lender is not None
        workers = [pid for job in self.lender.here.values() for pid in job.workers]
        wide = [pid for pid in workers if os.sched_getaffinity(pid) == {0, 1}]
        return wide[0] if wide else 0

    def lends(self) -> bool:
        """True once the owner's core is lent, and a worker runs on it."""
        return self.round() == {0: BORROWER} and bool(self.lent())

    def leftovers(self) -> list[str]:
        """Groups of ours, and the file, that are still there."""
        ours = list(CPUSETS.parent.glob(f"cpu*/dlqueue_lent_{NODE}_*"))
        return [str(path) for path in (*ours, self.run_dir(BORROWER) / "lent") if path.exists()]

    def end(self) -> None:
        """Everything goes."""
        workers = [
            pid for job in (self.lender.here if self.lender else {}).values() for pid in job.workers
        ]
        for child in self.jobs.values():
            child.kill()
            child.wait()
            assert child.stdout is not None
            child.stdout.close()
        for pid in workers:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if self.lender is not None:
            self.lender.undo()
        for folder in reversed(self.groups):
            until(partial(removed, folder), "a process stays")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """An owner that sleeps on core 0; a borrower fills core 1, and has been lent core 0."""
    node = Node(tmp_path)
    try:
        node.start(OWNER, "0", "idle")
        node.start(BORROWER, "1", "busy")
        until(node.lends, "nothing is lent")
        yield node
    finally:
        node.end()


def test_a_lender_whose_phase_changes_has_its_core_back(node: Node) -> None:
    """In the round that sees it compute; the lent worker is at the usual priority, at home."""
    worker = node.lent()
    node.jobs[OWNER].send_signal(signal.SIGUSR1)
    until(lambda: node.round() == {}, "the core is not taken back")
    assert os.sched_getaffinity(worker) == {1}
    assert os.sched_getscheduler(worker) == os.SCHED_OTHER
    assert node.leftovers() == []


def test_a_borrower_that_is_killed_leaves_nothing(node: Node) -> None:
    """Its training and its lent worker (-9): the next rounds lend nothing, and no group stays."""
    worker = node.lent()
    for pid in (node.jobs[BORROWER].pid, worker):
        os.kill(pid, signal.SIGKILL)
    node.jobs[BORROWER].wait()
    assert node.round() == {}
    until(lambda: node.round() == {} and not node.leftovers(), "something stays")


def test_a_controller_that_is_killed_is_undone_by_the_next(node: Node) -> None:
    """The note on the disk suffices; both jobs go on, and all of theirs is as Slurm left it."""
    worker, node.lender = node.lent(), None
    assert node.leftovers()
    assert undo_left(allocator_state(node.spool)) == 1
    assert node.leftovers() == []
    assert os.sched_getaffinity(worker) == {1}
    assert os.sched_getscheduler(worker) == os.SCHED_OTHER
    assert all(child.poll() is None for child in node.jobs.values())


def test_the_end_of_the_lender_gives_everything_back(node: Node) -> None:
    """At once; the status says before which core was whose."""
    assert node.lender is not None
    (owner, borrower) = node.lender._state.status["jobs"]
    assert (owner["lends"], borrower["borrows"], borrower["lent_workers"]) == ("0", "0", 1)
    worker = node.lent()
    assert node.lender.undo() == 1
    assert node.leftovers() == []
    assert os.sched_getaffinity(worker) == {1}
