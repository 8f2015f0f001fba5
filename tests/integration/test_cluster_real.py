"""The command-line client against a real Slurm."""

import os
import pwd

import pytest

from slurm_ext.core.errors import SlurmError
from slurm_ext.sandbox import Sandbox
from slurm_ext.slurm import CommandClient

pytestmark = pytest.mark.slurm


def client_of(sandbox: Sandbox) -> CommandClient:
    """A client that knows the sandbox only by its slurm.conf."""
    return CommandClient(slurm_conf=str(sandbox.layout.slurm_conf))


def test_a_job_is_seen_from_waiting_to_ended(sandbox: Sandbox) -> None:
    """State, owner, folder, nodes and exit code are Slurm's own."""
    job_id, _ = sandbox.sbatch("--hold", "--job-name=seen", "--comment=c", "--wrap", "exit 4")
    (waiting,) = [job for job in client_of(sandbox).jobs() if job.job_id == job_id]
    assert (waiting.state, waiting.name, waiting.comment) == ("PENDING", "seen", "c")
    assert (waiting.user_id, waiting.user_name) == (os.geteuid(), pwd.getpwuid(os.geteuid())[0])
    assert waiting.work_dir == str(sandbox.path("out"))
    sandbox.run(["scontrol", "release", str(job_id)])
    assert sandbox.wait(job_id) == "FAILED"
    (ended,) = [job for job in client_of(sandbox).jobs() if job.job_id == job_id]
    assert (ended.ended, ended.exit_code, ended.exit_signal) == (True, 4, None)
    assert ended.nodes in sandbox.nodes


def test_partitions_and_nodes_are_what_the_sandbox_was_asked_for(sandbox: Sandbox) -> None:
    """Limits and counts come back as they were configured."""
    (partition,) = client_of(sandbox).partitions()
    assert (partition.name, partition.default) == ("main", True)
    assert partition.def_mem_per_cpu_mib == sandbox.spec.mem_mib // sandbox.spec.cpus
    nodes = client_of(sandbox).nodes()
    assert [node.name for node in nodes] == list(sandbox.nodes)
    assert {node.cpus for node in nodes} == {sandbox.spec.cpus}
    assert {node.mem_mib for node in nodes} == {sandbox.spec.mem_mib}


def test_a_slurm_that_is_not_there_is_one_error() -> None:
    """Slurm's patience with a missing slurm.conf is longer than ours."""
    with pytest.raises(SlurmError, match="no answer within 1 s"):
        CommandClient(slurm_conf="/nonexistent/slurm.conf", timeout_s=1).jobs()
