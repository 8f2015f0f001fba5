"""From NVML's readings to a job's counters of one GPU. Pure.

What NVML says of a GPU is of the whole GPU, whoever works on it: its source is `nvml/<UUID>`.
What is the job's own, by its processes, is `nvml/<UUID>/processes`.
"""

from __future__ import annotations

from slurm_ext.node.kernel.readings import CounterGain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

# Means over time, peaks, and gains of running totals: NVML's name, ours, the factor to our unit.
_MEANS = (
    ("util", "gpu_util", 0.01),
    ("mem_util", "gpu_mem_util", 0.01),
    ("power_mw", "gpu_power_mean", 1e-3),
    ("sm_mhz", "gpu_sm_clock", 1e6),
    ("mem_mhz", "gpu_mem_clock", 1e6),
    ("sm_active", "gpu_sm_active", 0.01),
    ("sm_occupancy", "gpu_sm_occupancy", 0.01),
    ("tensor_active", "gpu_tensor_active", 0.01),
    ("dram_active", "gpu_dram_active", 0.01),
)
_GAINS = (
    ("energy_mj", "gpu_energy", 1e-3),
    ("pcie_tx_bytes", "gpu_pcie_tx", 1.0),
    ("pcie_rx_bytes", "gpu_pcie_rx", 1.0),
    ("nvlink_tx_kib", "gpu_nvlink_tx", 1024.0),
    ("nvlink_rx_kib", "gpu_nvlink_rx", 1024.0),
)
_RATES = (("pcie_tx_kb_s", "gpu_pcie_tx", 1e3), ("pcie_rx_kb_s", "gpu_pcie_rx", 1e3))  # a second
_LEAST_S = 1e-3  # weight of a first reading, which covers no time yet
_OF_JOB = ("gpu_job_util", "gpu_job_mem_peak")


class GpuTotals:
    """One GPU's figures over a job; `fault` says why there are none (any more)."""

    def __init__(self, saved: Mapping[str, Any] | None = None) -> None:
        saved = saved or {}
        self.fault: str | None = saved.get("fault")
        self._means: dict[str, list[float]] = {
            n: list(v) for n, v in saved.get("means", {}).items()
        }
        self._peaks: dict[str, float] = dict(saved.get("peaks", {}))
        gains = saved.get("gains", {})
        self._gains = {name: CounterGain(total=gains.get(name)) for _, name, _ in _GAINS}
        self._mem_bytes: tuple[float | None, float | None] = (None, None)  # the job's, everybody's

    def saved(self) -> dict[str, Any]:
        """State from which another sampler goes on."""
        gains = {name: gain.total for name, gain in self._gains.items() if gain.total is not None}
        return {"fault": self.fault, "means": self._means, "peaks": self._peaks, "gains": gains}

    @property
    def busy_s(self) -> float | None:
        """Seconds at work so far, for the job alone where the driver tells jobs apart."""
        mean = self._means.get("gpu_job_util") or self._means.get("gpu_util")
        return mean[0] if mean and self.fault is None else None

    @property
    def mem_bytes(self) -> float | None:
        """Memory in use at the last reading, the job's alone where the driver tells jobs apart."""
        own, whole = self._mem_bytes
        return (whole if own is None else own) if self.fault is None else None

    def see(self, reading: Mapping[str, Any], covers_s: float, pids: Collection[int]) -> None:
        """Take one reading, which stands for the last `covers_s` seconds; `pids` are the job's."""
        if reading.get("mig"):
            self.fault = "MIG is on: nothing is attributed"
        elif "lost" in reading:
            self.fault = f"it fell off the bus: {reading['lost']}"
        if self.fault is not None or "refused" in reading:
            return
        for theirs, ours, factor in _MEANS:
            self._mean(ours, reading.get(theirs), factor, covers_s)
        for theirs, ours, factor in _GAINS:
            value = reading.get(theirs)
            self._gains[ours].see(None if value is None else value * factor)
        for theirs, ours, factor in _RATES:
            value = reading.get(theirs)
            if value is not None:
                self._gains[ours].add(value * factor * covers_s)
        self._peak("gpu_mem_peak", reading.get("mem_bytes"))
        self._mem_bytes = (None, reading.get("mem_bytes"))
        self._see_processes(reading.get("processes"), covers_s, pids)

    def totals(self, uuid: str) -> dict[str, tuple[str, float]]:
        """`<name>@<UUID>` to source and value; nothing of a GPU that was lost or is divided."""
        if self.fault is not None:
            return {}
        values = {name: total / weight for name, (total, weight) in self._means.items() if weight}
        gains = {
            n: g.total for n, g in self._gains.items() if g.total is not None and not g.unknown
        }
        return {
            f"{name}@{uuid}": (f"nvml/{uuid}" + ("/processes" if name in _OF_JOB else ""), value)
            for name, value in {**values, **gains, **self._peaks}.items()
        }

    def _see_processes(self, reading: Any, covers_s: float, pids: Collection[int]) -> None:
        """The job's own share: what none of its processes did is 0, not missing."""
        if not isinstance(reading, dict):
            return
        own = [figures for pid, figures in reading.items() if int(pid) in pids]
        self._mean("gpu_job_util", sum(e.get("sm_util") or 0 for e in own), 0.01, covers_s)
        sizes = [figures.get("mem_bytes") for figures in own]
        if not any(size is None for size in sizes):
            self._peak("gpu_job_mem_peak", sum(sizes))
            self._mem_bytes = (sum(sizes), None)

    def _mean(self, name: str, value: float | None, factor: float, covers_s: float) -> None:
        if value is not None:
            weight = max(covers_s, _LEAST_S)
            total, weights = self._means.get(name, (0.0, 0.0))
            self._means[name] = [total + value * factor * weight, weights + weight]

    def _peak(self, name: str, value: float | None) -> None:
        if value is not None:
            self._peaks[name] = max(self._peaks.get(name, 0.0), float(value))


def resolved(names: Collection[str], listed: Collection[Mapping[str, Any]]) -> dict[str, str]:
    """Slurm's GPU names to UUIDs; a name that no GPU has is left out.

    Slurm numbers GPUs by their device file (gres.conf: /dev/nvidia<minor>), never by CUDA's order;
    without minor numbers from the driver, in the order of the PCI bus.
    """
    by_minor = {str(gpu["minor"]): gpu["uuid"] for gpu in listed if gpu.get("minor") is not None}
    if not by_minor:
        in_order = sorted(listed, key=lambda gpu: str(gpu.get("pci") or ""))
        by_minor = {str(place): gpu["uuid"] for place, gpu in enumerate(in_order)}
    own = {gpu["uuid"]: gpu["uuid"] for gpu in listed}
    return {name: {**by_minor, **own}[name] for name in names if name in by_minor or name in own}
