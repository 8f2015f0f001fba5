"""A job's GPUs: which they are, and what they did while it ran."""

from __future__ import annotations

from slurm_ext.node.common import state
from slurm_ext.node.counters.gpu.nvml import NvmlClient
from slurm_ext.node.counters.gpu.totals import GpuTotals, resolved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

MAX_GPUS = 12  # of one node: a record's counters have an end (spool.MAX_COUNTERS)
LAST_WAIT_S = 0.2


class JobGpus:
    """Follows the GPUs that Slurm gave the job, by UUID."""

    def __init__(
        self, names: Sequence[str], kept: Mapping[str, Any], nvml: NvmlClient | None = None
    ) -> None:
        self.names = list(names)
        self.uuids: dict[str, str] | None = kept.get("uuids")
        self._totals = {u: GpuTotals(k) for u, k in (kept.get("totals") or {}).items()}
        self._nvml = nvml or NvmlClient()
        self._seen_s: float | None = None
        self._faults: list[str] = []

    def sample(self, pids: Collection[int], last: bool = False) -> None:
        """Take the answer to the last question and put the next one; never waits for long."""
        if not self.names or self._nvml.why is not None:
            return
        self._take(pids, LAST_WAIT_S if last else 0.0)
        if self._nvml.idle():
            self._ask()
            if last:
                self._take(pids, LAST_WAIT_S)

    def place(self) -> list[str] | None:
        """UUIDs of the job's GPUs; None if they are unknown."""
        if not self.names:
            return []
        uuids = self.uuids or {}
        return [uuids[n] for n in self.names] if all(n in uuids for n in self.names) else None

    def totals(self) -> dict[str, tuple[str, float]]:
        """`<name>@<UUID>` to source and value (columns.GPU_UNITS)."""
        totals: dict[str, tuple[str, float]] = {}
        for uuid, gpu in list(self._totals.items())[:MAX_GPUS]:
            totals.update(gpu.totals(uuid))
        return totals

    def moment(self) -> tuple[float | None, float | None]:
        """Seconds at work so far and memory in use, of all GPUs; None if one does not tell."""
        gpus = list(self._totals.values())
        return _sum([gpu.busy_s for gpu in gpus]), _sum([gpu.mem_bytes for gpu in gpus])

    def faults(self) -> list[str]:
        """Reasons, a line each, for what could not be measured."""
        faults = [f"{uuid}: {gpu.fault}" for uuid, gpu in self._totals.items() if gpu.fault]
        if self.names and self._nvml.why:
            faults.append(f"NVML: {self._nvml.why}")
        if len(self._totals) > MAX_GPUS:
            faults.append(f"{len(self._totals)} GPUs: the record has room for {MAX_GPUS}")
        return [*self._faults, *faults]

    def saved(self) -> dict[str, Any]:
        """State from which another sampler goes on."""
        totals = {uuid: gpu.saved() for uuid, gpu in self._totals.items()}
        return {"uuids": self.uuids, "totals": totals}

    @property
    def cpu_s(self) -> float:
        """CPU seconds that reading NVML took."""
        return self._nvml.cpu_s

    def close(self) -> None:
        """End the process that asks."""
        self._nvml.close()

    def _ask(self) -> None:
        if self.uuids is None:
            self._nvml.ask({"list": True})
        elif self._totals:
            self._nvml.ask({"read": list(self._totals)})

    def _take(self, pids: Collection[int], wait_s: float) -> None:
        reply = self._nvml.answer(wait_s)
        if reply is None:
            return
        if "gpus" in reply:
            self._know(reply["gpus"])
            return
        now = state.uptime_s()
        covers_s = 0.0 if self._seen_s is None else now - self._seen_s
        self._seen_s = now
        for uuid, figures in reply.get("read", {}).items():
            if uuid in self._totals:
                self._totals[uuid].see(figures, covers_s, pids)

    def _know(self, listed: list[dict[str, Any]]) -> None:
        self.uuids = resolved(self.names, listed)
        missing = [name for name in self.names if name not in self.uuids]
        if missing:
            self._faults.append(f"NVML knows no GPU {', '.join(missing)[:80]}")
        self._totals = {uuid: GpuTotals() for uuid in self.uuids.values()}


def _sum(values: list[float | None]) -> float | None:
    measured = [value for value in values if value is not None]
    return sum(measured) if measured and len(measured) == len(values) else None
