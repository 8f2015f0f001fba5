"""Lending on a real Slurm that gives each job its own cores (ConstrainCores), and its undoing."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.sandbox import Sandbox
from tests.conftest import MakeSandbox
from tests.integration.test_control import HEAVY, LIGHT, TRAINING
from tests.whole import until

CPUSETS = Path("/sys/fs/cgroup/cpuset")
pytestmark = [
    pytest.mark.journey,
    pytest.mark.slurm,
    pytest.mark.root,
    pytest.mark.skipif(
        not (CPUSETS / "cpuset.cpus").exists() or (os.cpu_count() or 1) < 2,
        reason="needs cgroup version 1 and two cores",
    ),
]
SETTINGS = {
    "node.probe": True,
    "node.python": sys.executable,
    "control.mode": "act",
    "control.allocator": "lend",
    "control.interval_s": 0.5,
    "control.window_s": 1.0,
}


class Node:
    """A sandbox of two cores with the lender, and two jobs of one core each."""

    def __init__(self, slurm: Sandbox) -> None:
        self.slurm, self.end = slurm, slurm.path("end")
        self.folder = slurm.layout.node(slurm.nodes[0]) / "dlqueue"
        self.lender = f"control-{slurm.nodes[0]}"
        # Nearly asleep: on a busy machine its waits for a core count as use of its own.
        slurm.path("train.py").write_text(TRAINING.replace("0.02 if", "0.2 if"))
        self.owner, self.borrower = self._train(LIGHT), self._train(HEAVY)

    def _train(self, cost: str) -> int:
        script = f"#!/bin/sh\nexec python3 {self.slurm.path('train.py')} {cost} {self.end}\n"
        path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        return self.slurm.sbatch("-c1", script=script, env=path)[0]

    def row(self, job: int) -> dict[str, Any]:
        """What the lender says of a job; empty before it says anything."""
        with suppress(FileNotFoundError):
            status = json.loads((self.folder / "control/status.json").read_text())
            return next((row for row in status["jobs"] if row["job"] == f"{job}.0"), {})
        return {}

    def cpuset(self, job: int) -> set[str]:
        """Cores of Slurm's groups of a job and its steps."""
        (found,) = CPUSETS.glob(f"slurm_{self.slurm.nodes[0]}/uid_*/job_{job}")
        groups = [found, *found.glob("step_*")]
        return {(group / "cpuset.cpus").read_text().strip() for group in groups}

    def lent(self) -> list[int]:
        """Processes in the group that holds lent workers."""
        with suppress(FileNotFoundError):
            name = f"dlqueue_lent_{self.slurm.nodes[0]}_{self.borrower}"
            return [int(pid) for pid in (CPUSETS / name / "cgroup.procs").read_text().split()]
        return []

    def held_lending(self) -> tuple[dict[str, Any], dict[str, Any], int] | None:
        """Owner, borrower and lent worker, the lender stopped where all of them tell of one loan.

        A busy machine makes it take cores back and lend them again; stopped it does neither.
        """
        lender = self.slurm.status()["daemons"][self.lender]
        os.kill(lender, signal.SIGSTOP)
        owner, borrower, lent = self.row(self.owner), self.row(self.borrower), self.lent()
        if len(lent) == 1 and owner.get("lends") and borrower.get("borrows") and self.leftovers():
            return owner, borrower, lent[0]
        os.kill(lender, signal.SIGCONT)
        return None

    def leftovers(self) -> list[Path]:
        """What is there while something is lent: groups of ours, and the file for the probe."""
        groups = CPUSETS.parent.glob(f"cpu*/dlqueue_lent_{self.slurm.nodes[0]}_*")
        return [*groups, *self.folder.glob("run/*/lent")]


@pytest.fixture
def node(make_sandbox: MakeSandbox) -> Iterator[Node]:
    """An owner that leaves its core idle, and a borrower."""
    slurm = make_sandbox(
        hooks=True, control=True, cpus=2, cgroup=True, constrain_cores=True, settings=SETTINGS
    )
    node = Node(slurm)
    yield node
    node.slurm.stop(node.lender)


def test_a_loan_leaves_slurms_cores_alone_and_ends_with_its_controller(node: Node) -> None:
    """The owner's core for the borrower's lent worker alone; after kill -9 one command ends it.

    Both jobs train on, and to their end: every sample once and in order.
    """
    owner, borrower, worker = until(node.held_lending, "nothing is lent")
    assert (owner["lends"], owner["borrows"]) == (owner["cores"], "")
    assert (borrower["lends"], borrower["borrows"]) == ("", owner["cores"])
    own, lent = int(borrower["cores"]), int(owner["cores"])
    assert os.sched_getaffinity(worker) == {own, lent}
    assert os.sched_getscheduler(worker) == os.SCHED_IDLE
    assert (node.cpuset(node.owner), node.cpuset(node.borrower)) == ({str(lent)}, {str(own)})
    node.slurm.stop(node.lender, signal.SIGKILL)
    argv = [sys.executable, "-m", "slurm_ext.cli", "control", "--restore", "--json"]
    said = node.slurm.run([*argv, "--config", str(node.folder.parent / "dlqueue.toml")]).stdout
    assert json.loads(said) == {"restored": 1}
    assert node.leftovers() == []
    assert os.sched_getaffinity(worker) == {own}
    node.end.touch()
    for job in (node.owner, node.borrower):
        assert node.slurm.wait(job) == "COMPLETED"
        assert "in order True " in node.slurm.output(job)
