"""The node at which the ranks of a job step meet: that of its first rank."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def meeting_node(env: Mapping[str, str]) -> str | None:
    """The first node of the step where its name has an address; else the node that typed srun.

    The latter alone would be a login node under `srun` there, and another node than the first
    rank's for `srun -w`: every rank would wait for nobody.
    """
    name = _first(env.get("SLURM_STEP_NODELIST", ""))
    return name if name and _has_address(name) else env.get("SLURM_LAUNCH_NODE_IPADDR")


def _first(listed: str) -> str:
    """The first name of a host list. Twin of slurm/hostlist.first, which no job can import."""
    name, rest = "", listed
    while rest:
        plain, bracket, rest = rest.partition("[")
        if not bracket or "," in plain:
            return name + plain.partition(",")[0]
        inside, _, rest = rest.partition("]")
        name += plain + inside.partition(",")[0].partition("-")[0]
    return name


def _has_address(name: str) -> bool:
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return False
    return True
