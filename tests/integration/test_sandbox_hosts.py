"""Nodes as hosts of their own: cut off, mended, killed, booted."""

from collections.abc import Callable

import pytest

from slurm_ext.core.errors import SandboxError
from slurm_ext.sandbox import Sandbox

pytestmark = [pytest.mark.slurm, pytest.mark.root]
MakeSandbox = Callable[..., Sandbox]
REACH = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 1)"


@pytest.fixture(scope="module")
def hosts(make_module_sandbox: MakeSandbox) -> Sandbox:
    """Two nodes, each with a network of its own."""
    return make_module_sandbox(nodes=2, namespaces=True, slurm_conf="SlurmdTimeout=15")


def reaches_controller(sandbox: Sandbox, node: int) -> bool:
    """Whether slurmctld's port answers to a process on the node."""
    plan = sandbox.plan
    inside = ["nsenter", f"--net=/run/netns/{plan.nodes[node].namespace}"]
    argv = [*inside, "/usr/bin/python3", "-c", REACH, plan.address, str(plan.controller_port)]
    return sandbox.run(argv, check=False).returncode == 0


def test_a_job_spans_the_hosts(hosts: Sandbox) -> None:
    """Every node has its own address; srun reaches all of them."""
    job, _ = hosts.sbatch("-N2", "--wrap", "srun sh -c 'ip -4 -o address show eth0'")
    assert hosts.wait(job) == "COMPLETED"
    addresses = {line.split()[3].partition("/")[0] for line in hosts.output(job).splitlines()}
    assert addresses == {node.address for node in hosts.plan.nodes}


def test_a_node_is_cut_off_and_mended(hosts: Sandbox) -> None:
    """Only the cut node loses the controller, and finds it again."""
    hosts.cut("n1")
    hosts.until(lambda: not reaches_controller(hosts, 0), "the cut node still reaches it")
    hosts.until(lambda: reaches_controller(hosts, 1), "the other node lost it")
    hosts.mend("n1")
    hosts.until(lambda: reaches_controller(hosts, 0), "the mended node does not find it")


def test_a_killed_node_takes_its_job_along_and_boots_again(hosts: Sandbox) -> None:
    """A power cut ends every process of the node, and of no other; booted, it works again."""
    job, _ = hosts.sbatch("-w", "n2", "--wrap", "setsid sleep 1000 & sleep 1000")
    hosts.until(lambda: hosts.job(job).get("JobState") == "RUNNING", "the job does not start")
    inhabitants = ["ip", "netns", "pids", str(hosts.plan.nodes[1].namespace)]
    hosts.until(lambda: len(hosts.run(inhabitants).stdout.split()) > 3, "nobody is on the node")
    hosts.kill_node("n2")
    assert hosts.run(inhabitants).stdout == ""
    daemons = hosts.status()["daemons"]
    assert (daemons["n2"], daemons["n1"] is None) == (None, False)
    hosts.run(["scancel", str(job)])
    hosts.start("n2")
    after, _ = hosts.sbatch("-w", "n2", "--wrap", "true")
    assert hosts.wait(after) == "COMPLETED"


def test_plain_nodes_cannot_be_cut(sandbox: Sandbox) -> None:
    """Without namespaces nothing of the machine's network is touched."""
    with pytest.raises(SandboxError, match="with namespaces"):
        sandbox.cut("n1")
