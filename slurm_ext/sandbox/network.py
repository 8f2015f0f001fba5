"""Network of nodes as separate hosts: a bridge, and a namespace with a cable for each node."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress

from slurm_ext.core.errors import SandboxError
from slurm_ext.sandbox.plan import SUBNETS, SandboxPlan
from slurm_ext.sandbox.processes import send


def free_subnet(tag: str) -> str:
    """Return the first three numbers of a /24 that no interface of this machine has."""
    links = json.loads(_ip("-json", "-4", "address"))
    taken = {a["local"].rpartition(".")[0] for link in links for a in link["addr_info"]}
    first = int(tag, 16) % len(SUBNETS)
    for subnet in (*SUBNETS[first:], *SUBNETS[:first]):
        if subnet not in taken:
            return subnet
    raise SandboxError("every subnet of 198.18.0.0/15 is taken: take a sandbox down first")


def build(plan: SandboxPlan) -> None:
    """Make the bridge with slurmctld's address, then each node's namespace and cable."""
    bridge = _bridge(plan)
    _ip("link", "add", bridge, "type", "bridge")
    _ip("address", "add", f"{plan.address}/24", "dev", bridge)
    _ip("link", "set", bridge, "up")
    for number, node in enumerate(plan.hosts):
        name, cable = str(node.namespace), _cable(plan, number)
        _ip("netns", "add", name)
        _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", cable, "master", bridge, "up")
        _ip("-n", name, "address", "add", f"{node.address}/24", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")
        _ip("-n", name, "link", "set", "lo", "up")


def undo(plan: SandboxPlan) -> None:
    """Undo `build`, or what was built so far; the cables vanish with the namespaces."""
    if not plan.spec.namespaces:
        return
    for node in plan.hosts:
        with suppress(SandboxError):
            _ip("netns", "delete", str(node.namespace))
    with suppress(SandboxError):
        _ip("link", "delete", _bridge(plan))


def plug(plan: SandboxPlan, node: str, *, connected: bool) -> None:
    """Pull a node's cable out of the bridge, or put it back."""
    _ip("link", "set", _cable(plan, _number(plan, node)), "up" if connected else "down")


def kill(plan: SandboxPlan, node: str) -> None:
    """Simulate a power cut: kill every process of the node's namespace until there is none."""
    while pids := list(_inhabitants(plan.hosts[_number(plan, node)].namespace)):
        for pid in pids:
            send(pid, signal.SIGKILL)


def _inhabitants(namespace: str | None) -> Iterator[int]:
    if namespace is None:
        raise SandboxError("nodes share this machine's network: start the sandbox with namespaces")
    pids = _ip("netns", "pids", namespace)
    return (int(pid) for pid in pids.split() if int(pid) != os.getpid())


def _number(plan: SandboxPlan, node: str) -> int:
    names = [n.name for n in plan.hosts]
    if node not in names or not plan.spec.namespaces:
        raise SandboxError(
            f"{node!r}: only nodes of a sandbox with namespaces are hosts ({', '.join(names)})"
        )
    return names.index(node)


def _bridge(plan: SandboxPlan) -> str:
    return f"dlq{plan.layout.tag}"  # an interface's name has at most 15 characters


def _cable(plan: SandboxPlan, number: int) -> str:
    return f"dlq{plan.layout.tag}v{number}"


def _ip(*words: str) -> str:
    try:
        argv = ["ip", *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
    except subprocess.CalledProcessError as error:
        raise SandboxError(f"ip {' '.join(words)}: {error.stderr.strip()}") from None
    return done.stdout
