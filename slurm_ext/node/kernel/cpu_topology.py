"""CPUs, sockets and GPUs of a job, and those that two jobs share.

A job's place is what its processes may use, not what they happened to use: jobs that are not bound
to cores share all of them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MAX_CPU = 8192
MAX_GPUS = 16
_TOPOLOGY = "/sys/devices/system/cpu/cpu{}/topology/physical_package_id"


def cpu_numbers(text: str) -> set[int]:
    """The CPUs of a kernel's list such as `0-3,8`; empty if it is anything else."""
    cpus: set[int] = set()
    for item in text.strip().split(","):
        first, _, last = item.partition("-")
        last = last or first
        if not (first.isdecimal() and last.isdecimal() and len(first) + len(last) < 12):
            return set()
        cpus.update(range(int(first), min(int(last), MAX_CPU) + 1))
    return cpus


def allowed_cpus(pid: int, proc: str = "/proc") -> str | None:
    """CPUs that a process may run on, as the kernel lists them; None if it is gone."""
    try:
        with open(f"{proc}/{pid}/status", encoding="ascii", errors="replace") as file:
            lines = file.read(16384).splitlines()
    except OSError:
        return None
    lists = [line.partition(":")[2].strip() for line in lines if line.startswith("Cpus_allowed_l")]
    return lists[0] if lists and cpu_numbers(lists[0]) else None


def shared_resources(mine: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """CPUs, sockets and GPUs that two places share; None for what one of them does not hold.

    A place is `{"cpus": "0-3", "gpus": [UUID, ...], "gpu_names": [...]}`. `cpus` and `sockets` are
    counts; `gpus` are UUIDs, or Slurm's own numbers where a UUID is not known, at most MAX_GPUS.
    """
    cpus = [cpu_numbers(str(place.get("cpus") or "")) for place in (mine, other)]
    known = bool(cpus[0] and cpus[1])
    sockets = _sockets(cpus[0]) & _sockets(cpus[1]) if known else set()
    by_uuid = all(isinstance(place.get("gpus"), list) for place in (mine, other))
    gpus = [place.get("gpus" if by_uuid else "gpu_names") or () for place in (mine, other)]
    return {
        "cpus": len(cpus[0] & cpus[1]) if known else None,
        "sockets": len(sockets) or None,
        "gpus": sorted(set(gpus[0]) & set(gpus[1]))[:MAX_GPUS],
    }


def _sockets(cpus: set[int]) -> set[int]:
    """Sockets of these CPUs, as this machine is built."""
    sockets = set()
    for cpu in cpus:
        try:
            with open(_TOPOLOGY.format(cpu), encoding="ascii") as file:
                sockets.add(int(file.read(16)))
        except (OSError, ValueError):
            return set()
    return sockets
