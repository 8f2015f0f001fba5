"""Bytes between memory and processor, where the processor's uncore counts them: the whole node's.

Intel's memory controllers name their events in sysfs. AMD's data fabric does not: the codes of
Zen 2 and 3 are from linux/tools/perf/pmu-events (data-fabric.json) and were never compared with
hardware.
"""

from __future__ import annotations

import os
import re

from slurm_ext.node.counters.perf import events
from slurm_ext.node.counters.perf.syscall import PerfEvent
from slurm_ext.node.kernel import sysfs
from slurm_ext.node.kernel.cpu_topology import cpu_numbers
from slurm_ext.node.kernel.readings import scaled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from slurm_ext.node.counters.perf.syscall import PerfKernel

DEVICES = "/sys/bus/event_source/devices"
NAME = "perf_mem_bytes"
MAX_FDS = 128
_INTEL = re.compile(r"uncore_imc(_free_running)?(_\d+)?")
_INTEL_EVENTS = ("cas_count_read", "cas_count_write", "data_read", "data_write")
_UNITS = {"MiB": 1024.0 * 1024, "KiB": 1024.0, "Bytes": 1.0, "": 1.0}
_AMD_LINES = 64.0  # bytes a count
_AMD_TERMS = [f"event=0x{code:x},umask=0x38" for code in range(0x07, 0x200, 0x40)]


class Uncore:
    """Counts from when it was made; `sources` names what it counts with, empty if nothing."""

    def __init__(
        self,
        kernel: PerfKernel,
        base: float = 0.0,
        devices: str = DEVICES,
        cpuinfo: str = events.CPUINFO,
    ) -> None:
        self._kernel, self._base = kernel, base
        self._fds: list[tuple[int, float]] = []
        self.sources: list[str] = []
        self.why = "no memory controller of this processor counts for us"
        try:
            for device, cpus, event, factor in _wanted(devices, cpuinfo):
                self._open(device, cpus, event, factor)
        except OSError as error:
            self.why = f"{error.strerror}"
            self.close()

    def totals(self) -> dict[str, tuple[str, float]]:
        """Bytes so far; missing as a whole if one controller could not be read."""
        total = self._base
        for fd, factor in self._fds:
            try:
                count = scaled(*self._kernel.read(fd))
            except OSError:
                return {}
            if count is None:
                return {}
            total += count * factor
        return {NAME: (f"perf/{self.sources[0]}/node", total)} if self._fds else {}

    def close(self) -> None:
        """Give the counters back."""
        for fd, _ in self._fds:
            self._kernel.close(fd)
        self._fds, self.sources = [], []

    def _open(self, device: str, cpus: set[int], event: PerfEvent, factor: float) -> None:
        for cpu in sorted(cpus):
            if len(self._fds) >= MAX_FDS:
                raise OSError(24, f"more than {MAX_FDS} memory controllers")
            self._fds.append((self._kernel.open(event, cpu=cpu), factor))
        family = device.rstrip("0123456789").rstrip("_")
        self.sources += [] if family in self.sources else [family]


def encoded(terms: str, formats: Mapping[str, str]) -> int:
    """A PMU's config from sysfs terms (`event=0x04,umask=0x03`) and its formats.

    A format such as `config:0-7,32-35` says which bits take the value, lowest first
    (Documentation/ABI/testing/sysfs-bus-event_source-devices-format). Raises ValueError.
    """
    config = 0
    for term in terms.strip().split(","):
        name, _, text = term.partition("=")
        place, _, ranges = formats.get(name, "").strip().partition(":")
        if place != "config":
            raise ValueError(f"no place in config for {name!r}")
        value = int(text or "1", 0)
        for part in ranges.split(","):
            first, _, last = part.partition("-")
            width = int(last or first) - int(first) + 1
            config |= (value & ((1 << width) - 1)) << int(first)
            value >>= width
        if value:
            raise ValueError(f"{term!r} does not fit")
    return config


def _wanted(devices: str, cpuinfo: str) -> Iterator[tuple[str, set[int], PerfEvent, float]]:
    """Device, the CPUs to count it on, event, and bytes a count."""
    free_running = [d for d in sysfs.listed(devices) if "free_running" in d]
    for device in sysfs.listed(devices):
        if _INTEL.fullmatch(device) and (device in free_running or not free_running):
            yield from _intel(device, os.path.join(devices, device))
    if "amd_df" in sysfs.listed(devices) and _zen_2_or_3(cpuinfo):
        folder = os.path.join(devices, "amd_df")
        for terms in _AMD_TERMS:
            event = _event(folder, terms)
            if event:
                yield "amd_df", _cpus(folder), event, _AMD_LINES


def _intel(device: str, folder: str) -> Iterator[tuple[str, set[int], PerfEvent, float]]:
    for name in _INTEL_EVENTS:
        path = os.path.join(folder, "events", name)
        event = _event(folder, sysfs.text(path)) if os.path.exists(path) else None
        unit, scale = sysfs.text(f"{path}.unit"), sysfs.text(f"{path}.scale") or "1"
        if event and unit in _UNITS:
            yield device, _cpus(folder), event, float(scale) * _UNITS[unit]


def _event(folder: str, terms: str) -> PerfEvent | None:
    formats = {
        name: sysfs.text(os.path.join(folder, "format", name)) for name in ("event", "umask")
    }
    try:
        kind = int(sysfs.text(os.path.join(folder, "type")))
        return PerfEvent(os.path.basename(folder), kind, encoded(terms, formats))
    except ValueError:
        return None


def _cpus(folder: str) -> set[int]:
    return cpu_numbers(sysfs.text(os.path.join(folder, "cpumask"))) or {0}


def _zen_2_or_3(cpuinfo: str) -> bool:
    if events.vendor(cpuinfo) != "AuthenticAMD":
        return False
    family, model = (events.number(cpuinfo, name) for name in (b"cpu family", b"model"))
    if family is None or model is None:
        return False
    zen_3 = model <= 0x0F or 0x20 <= model <= 0x5F
    return (family == 23 and model >= 0x30) or (family == 25 and zen_3)
