"""Which of the kernel's events stands for which counter on this machine's processor.

perf's generic names do not mean the same everywhere: `cache-misses` are those of the last level on
Intel and of the second level on AMD Zen (linux/arch/x86/events/amd/core.c), so that each counter
here says by its source what was really counted.
"""

from __future__ import annotations

import os

from slurm_ext.node.counters.perf.syscall import (
    CACHE,
    HARDWARE,
    RAW,
    SOFTWARE,
    TASK_CLOCK,
    PerfEvent,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slurm_ext.node.counters.perf.syscall import PerfKernel

CPUINFO = "/proc/cpuinfo"
_AMD = ("AuthenticAMD", "HygonGenuine")
_INTEL = "GenuineIntel"
_LAST_LEVEL, _READ, _MISS = 2, 0 << 8, 1 << 16
_MISSES, _REFERENCES = (
    PerfEvent("cache-misses", HARDWARE, 3),
    PerfEvent("cache-references", HARDWARE, 2),
)
_LLC_LOAD_MISSES = PerfEvent("LLC-load-misses", CACHE, _LAST_LEVEL | _READ | _MISS)
_LLC_LOADS = PerfEvent("LLC-loads", CACHE, _LAST_LEVEL | _READ)
_L2_RQSTS_MISS = PerfEvent("r3f24", RAW, 0x3F24)  # Intel SDM, Skylake and later: L2_RQSTS.MISS
_L2D_REFILL = PerfEvent("r17", RAW, 0x17)  # Arm ARM: L2D_CACHE_REFILL
_FIRST = {
    "perf_task_clock": (PerfEvent("task-clock", SOFTWARE, TASK_CLOCK),),
    "perf_instructions": (PerfEvent("instructions", HARDWARE, 1),),
    "perf_cycles": (PerfEvent("cycles", HARDWARE, 0),),
}
_LAST = {
    "perf_branch_misses": (PerfEvent("branch-misses", HARDWARE, 5),),
    "perf_stalled_cycles": (
        PerfEvent("stalled-cycles-backend", HARDWARE, 8),
        PerfEvent("stalled-cycles-frontend", HARDWARE, 7),
    ),
}
# A hypervisor shares its counters and keeps some; a guest that takes more gets zeros and halves
# without notice. Measured on KVM and AMD Zen 3 with perf(1) itself: six at once, one always 0
# and others at half; five, one wrong in ten; four, none.
GUEST_EVENTS = 4
GUEST_DUTY = 0.02  # so that a job that only switches loses no more than this
_TOO_MANY = "left out: a virtual machine counts four events right, more of them wrong"


def candidates(vendor: str) -> dict[str, tuple[PerfEvent, ...]]:
    """The events to try for each counter, best first; the counters by what they matter.

    `vendor` is as /proc/cpuinfo has it, empty if it has none.
    """
    second: tuple[PerfEvent, ...] = ()
    if vendor in _AMD:
        return {
            **_FIRST,
            "perf_llc_misses": (_LLC_LOAD_MISSES,),
            "perf_l2_misses": (_MISSES,),
            **_LAST,
            "perf_llc_references": (_LLC_LOADS,),
            "perf_l2_references": (_REFERENCES,),
        }
    if vendor == _INTEL:
        second = (_L2_RQSTS_MISS,)
    elif os.uname().machine == "aarch64":
        second = (_L2D_REFILL,)
    return {
        **_FIRST,
        "perf_llc_misses": (_MISSES, _LLC_LOAD_MISSES),
        "perf_llc_references": (_REFERENCES, _LLC_LOADS),
        "perf_l2_misses": second,
        **_LAST,
        "perf_l2_references": (),
    }


def usable(
    kernel: PerfKernel, wanted: Mapping[str, Sequence[PerfEvent]], most: int = 64
) -> tuple[dict[str, PerfEvent], dict[str, str]]:
    """The first event of each counter that this kernel opens, and why not for the others.

    At most `most` of the processor's own: those of `wanted` that come first.
    """
    events_by_name: dict[str, PerfEvent] = {}
    refused = {}
    for name, events in wanted.items():
        counted = sum(event.kind != SOFTWARE for event in events_by_name.values())
        event, why = _first(kernel, events) if counted < most else (None, _TOO_MANY)
        if event is None:
            refused[name] = why
        else:
            events_by_name[name] = event
    return events_by_name, refused


def _first(kernel: PerfKernel, events: Sequence[PerfEvent]) -> tuple[PerfEvent | None, str]:
    why = "no event of this processor is known for it"
    for event in (variant for plain in events for variant in (plain, plain.only_user())):
        try:
            kernel.close(kernel.open(event, pid=0))
        except OSError as error:
            why = f"{event.label}: {error.strerror}"
        else:
            return event, ""
    return None, why


def most_at_once(cpuinfo: str = CPUINFO) -> int:
    """Number of the processor's events to count at a time."""
    return GUEST_EVENTS if b" hypervisor" in _head(cpuinfo) else 64


def duty(cpuinfo: str = CPUINFO) -> float:
    """The share of the time for which to count: all of it, but for a guest little.

    Each event that counts makes every switch of a task on and off a processor dearer. Measured on
    KVM: 3.5 microseconds a switch without, 145 with four events, for each access to the counters
    goes through the hypervisor.
    """
    return GUEST_DUTY if b" hypervisor" in _head(cpuinfo) else 1.0


def vendor(cpuinfo: str = CPUINFO) -> str:
    """The processor's maker as x86 says it; empty elsewhere."""
    return _value(cpuinfo, b"vendor_id").decode("ascii", "replace")


def number(cpuinfo: str, name: bytes) -> int | None:
    """The first processor's line `name : <number>`."""
    value = _value(cpuinfo, name)
    return int(value) if value.isdigit() else None


def _value(cpuinfo: str, wanted: bytes) -> bytes:
    lines = (line.partition(b":") for line in _head(cpuinfo).splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == wanted), b"")


def _head(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(8192)
    except OSError:
        return b""
