"""Two controllers with one state folder: slurmctld moves, and the advisor follows."""

import signal

import pytest

from slurm_ext.core.errors import SlurmError
from slurm_ext.sandbox import Sandbox, control
from tests.conftest import MakeSandbox
from tests.whole import asked, until

pytestmark = [pytest.mark.slurm, pytest.mark.root, pytest.mark.journey]

SCRIPT = "#!/bin/sh\necho token $DLQUEUE_DECISION\n"
SETTINGS = {
    "node.sample_s": 0.2,
    "advisor.reconcile_s": 0.5,
    "advisor.breaker_s": 1,
}


@pytest.fixture
def slurm(make_sandbox: MakeSandbox) -> Sandbox:
    """Two slurmctlds, each with our plugin and an advisor beside it."""
    two = {"backup": True, "namespaces": True, "nodes": 1, "cpus": 2}
    return make_sandbox(**two, hooks=True, lua=True, advisor=True, settings=SETTINGS)


class Jobs:
    """Jobs that were submitted, none of them in vain."""

    def __init__(self, slurm: Sandbox) -> None:
        self.slurm, self.ids = slurm, list[int]()

    def one(self) -> bool:
        """Submit a job and wait for its end; True if an advisor decided on it.

        From 24.11 on, an sbatch that asks while the controllers change places may be told of a
        timeout: nobody's job, if Slurm knows none of that name.
        """
        name = f"job-{len(self.ids)}-"
        try:
            job_id, _ = self.slurm.sbatch(f"-J{name}", script=SCRIPT)
        except SlurmError as error:
            if "Socket timed out" not in str(error):
                raise
            ask = ["squeue", "-h", "-tall", "-n", name, "-o%A"]
            answers = lambda: self.slurm.run(ask, check=False).returncode == 0  # noqa: E731
            until(answers, "no slurmctld answers", 200)
            if not (known := self.slurm.run(ask).stdout.split()):
                return False
            job_id = int(known[0])
        self.ids.append(job_id)
        assert self.slurm.wait(job_id) == "COMPLETED"
        return "token d1-" in self.slurm.output(job_id)

    def are_saved(self) -> bool:
        """True if slurmctld has written the last one down: killed before, it forgets its number."""
        name = f"job-{len(self.ids) - 1}-".encode()
        path = self.slurm.path("state/job_state")
        return path.exists() and name in path.read_bytes()

    def all_are_recorded_once(self) -> bool:
        """By their nodes, whoever took the records in."""
        rows = asked(self.slurm, "SELECT job_id FROM runs WHERE source = 'epilog'")
        return sorted(row[0] for row in rows) == self.ids


def serves_at(slurm: Sandbox) -> str:
    """Host of the advisor that holds the state folder."""
    return slurm.path("dlqueue/advisor.lock").read_text().partition("\n")[0]


def made_room(slurm: Sandbox) -> None:
    """The first advisor has ended; started again, as by systemd, it waits."""
    until(lambda: slurm.status()["daemons"]["advisor"] is None, "it does not end")
    control.ask(slurm.layout, "start", name="advisor")
    until(slurm.path("run/advisor.sock.submit").exists, "it does not wait")


def test_a_killed_slurmctld_and_its_return_lose_nothing(slurm: Sandbox) -> None:
    """The advisor that still runs beside the dead one makes room, and comes back with it."""
    jobs = Jobs(slurm)
    until(jobs.one, "no advisor answers")  # once it has read the limits of Slurm
    here = serves_at(slurm)
    until(jobs.are_saved, "slurmctld does not save its state")
    slurm.stop("slurmctld", signal.SIGKILL, grace_s=1)
    until(jobs.one, "no advisor answers the backup", 200)
    assert serves_at(slurm) == "backup"
    made_room(slurm)
    slurm.start("slurmctld")
    until(lambda: jobs.one() and serves_at(slurm) == here, "it does not come back", 200)
    until(jobs.all_are_recorded_once, f"not all of {jobs.ids} are recorded")


def test_a_takeover_loses_nothing(slurm: Sandbox) -> None:
    """`scontrol takeover`, and then the host of the advisor that serves dies."""
    jobs = Jobs(slurm)
    until(jobs.one, "no advisor answers")  # once it has read the limits of Slurm
    here = serves_at(slurm)
    slurm.run(["scontrol", "takeover"], timeout_s=150)
    until(jobs.one, "no advisor answers the backup", 200)
    assert serves_at(slurm) == "backup"
    made_room(slurm)
    until(jobs.are_saved, "slurmctld does not save its state")
    slurm.kill_node("backup")
    until(lambda: serves_at(slurm) == here, "a dead host keeps the folder")
    slurm.restart("slurmctld")
    until(jobs.one, "no advisor answers", 200)
    until(jobs.all_are_recorded_once, f"not all of {jobs.ids} are recorded")
