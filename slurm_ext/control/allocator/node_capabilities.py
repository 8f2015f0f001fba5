"""Mechanisms to move CPUs that a node has, before any job runs on it."""

import os
from pathlib import Path

from slurm_ext.control.allocator.cgroup.cpu import AFFINITY, CPUSET, QUOTA
from slurm_ext.node.kernel.cgroup import MOUNT


def node_mechanisms(mount: str = MOUNT) -> tuple[str, ...]:
    """Of quota, cpuset and affinity those that can be set here.

    A cpuset is used for jobs that Slurm constrains to cores (ConstrainCores=yes) only.
    """
    root = Path(mount)
    controllers = _text(root / "cgroup.controllers").split()
    quota = "cpu" in controllers or os.access(root / "cpu" / "cpu.cfs_quota_us", os.W_OK)
    cpuset = "cpuset" in controllers or os.access(root / "cpuset" / "cpuset.cpus", os.W_OK)
    return (*((QUOTA,) if quota else ()), *((CPUSET,) if cpuset else ()), AFFINITY)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
