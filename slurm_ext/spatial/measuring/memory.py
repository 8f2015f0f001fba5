"""Memory that each rank may still take: of its GPU, or its share of what bounds its node's ranks.

The reading of control groups is a twin of probe/counters/machine.py, which no job's code imports.
"""

from __future__ import annotations

import socket
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from collections.abc import Iterator

    Room = tuple[float, str]  # bytes, and the pool that they are free in

KEPT = 0.75  # of what is free: gradients between layers and kernels' own memory take the rest
GROUPS, PROCESS, MEMINFO = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup"), Path("/proc/meminfo")
FILES = (  # limit, use, and cache that is given up for it: version 2, version 1
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def rank_memory(device: torch.device) -> float:
    """Bytes for what a step keeps, of the rank that has least; on all ranks. Collective."""
    own = node_room()
    if device.type == "cuda":
        own = float(torch.cuda.mem_get_info()[0]), str(dist.get_rank())  # no GPU has two ranks
    rooms: list[Room] = [own] * dist.get_world_size()
    dist.all_gather_object(rooms, own)
    return KEPT * least_share(rooms)


def least_share(rooms: list[Room]) -> float:
    """The smallest room, where ranks of one pool share it."""
    ranks = Counter(pool for _, pool in rooms)
    return min(free / ranks[pool] for free, pool in rooms)


def node_room(groups: Path = GROUPS, process: Path = PROCESS, meminfo: Path = MEMINFO) -> Room:
    """Free memory of the tightest control group that holds this process, or of the node."""
    host, rooms = socket.gethostname(), [(float("inf"), "")]
    with suppress(OSError, ValueError, KeyError):
        rows = dict(line.split(":") for line in meminfo.read_text().splitlines())
        rooms.append((1024.0 * int(rows["MemAvailable"].split()[0]), host))
    for folder in _folders(groups, process):
        rooms += [(free, f"{host} {folder}") for free in _free(folder)]
    return min(rooms)


def _folders(groups: Path, process: Path) -> Iterator[Path]:
    """The process's control group of memory, and every one above it."""
    with suppress(OSError):
        for line in process.read_text().splitlines():
            number, names, path = line.split(":", 2)
            inside = Path(path.lstrip("/"))
            if "memory" in names.split(",") or (number, names) == ("0", ""):
                base = groups / ("memory" if names else "")
                yield from (base / part for part in (inside, *inside.parents))


def _free(folder: Path) -> Iterator[float]:
    """Bytes that a limited group may still take; a group without a limit yields nothing."""
    for limit, use, cache in FILES:
        with suppress(OSError, ValueError, KeyError):  # no limit: "max", or the file is absent
            most, used = (int((folder / name).read_text()) for name in (limit, use))
            rows = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            yield float(max(0, most - used + int(rows[cache])))
