"""Neighbours of each core as the kernel lists them: memory node, and threads of one core."""

from contextlib import suppress
from pathlib import Path

from slurm_ext.control.allocator.cgroup.cores import parse_cores

NODES = "/sys/devices/system/node"
CPUS = "/sys/devices/system/cpu"


def memory_nodes(sysfs: str = NODES) -> dict[int, int]:
    """The memory node of each core; empty where the kernel does not tell."""
    nodes = {}
    for folder in Path(sysfs).glob("node[0-9]*"):
        with suppress(OSError, ValueError):
            for core in parse_cores((folder / "cpulist").read_text()):
                nodes[core] = int(folder.name.removeprefix("node"))
    return nodes


def siblings(sysfs: str = CPUS) -> dict[int, frozenset[int]]:
    """Hardware threads that share a core with others, each with all of them, itself included."""
    by_core = {}
    for path in Path(sysfs).glob("cpu[0-9]*/topology/thread_siblings_list"):
        with suppress(OSError, ValueError):
            threads = parse_cores(path.read_text())
            if len(threads) > 1:
                by_core[int(path.parts[-3].removeprefix("cpu"))] = threads
    return by_core
