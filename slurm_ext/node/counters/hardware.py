"""Everything about a job that hardware counts, beside its control group and /proc.

Each source is looked for once, with the first process; one that fails is given up for this job,
with a line in the record, and never stands in the way of the others.
"""

from __future__ import annotations

import time

from slurm_ext.node.common.log import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from slurm_ext.node.kernel.cgroup import Cgroup
    from slurm_ext.node.kernel.processes import JobProcess

MAX_FAULTS = 16


class HardwareCounters:
    """Perf events, the uncore, power meters and GPUs of one job; `totals` as the meter's."""

    def __init__(self, gpus: Sequence[str], saved: Mapping[str, Any]) -> None:
        self._names, self._kept = list(gpus), saved
        self._parts: dict[str, Any] = {}
        self._given_up: list[str] = list(saved.get("given_up") or ())
        self._before = {
            name: (str(pair[0]), float(pair[1]))
            for name, pair in (saved.get("totals") or {}).items()
            if "@" not in name  # a GPU's go on by themselves, or are lost with it
        }
        self._now: dict[str, tuple[str, float]] = {}
        self.looked = False
        self._look_s = 0.0

    def sample(
        self, members: Mapping[int, JobProcess], group: Cgroup | None, *, last: bool = False
    ) -> None:
        """Read everything once; sources are looked for when the job has its first process."""
        if members and not self.looked:
            self.looked, before_s = True, time.process_time()
            for name, make in self._makers().items():
                self._guarded(name, self._add, name, make)
            self._look_s = time.process_time() - before_s
        for name, part in list(self._parts.items()):
            if name == "perf":
                self._guarded(name, part.sample, members, group)
            elif name == "power":
                self._guarded(name, part.sample)
            elif name == "gpus":
                self._guarded(name, part.sample, members.keys(), last)
        self._now = {}
        for name, part in list(self._parts.items()):
            self._guarded(name, self._take, part)

    def totals(self) -> dict[str, tuple[str, float]]:
        """Counter to source and value; what counted before and does not any more, as it was."""
        return {**self._before, **self._now}

    def faults(self) -> list[str]:
        """Reasons, a line each, for what could not be measured."""
        gpus = self._parts.get("gpus")
        lines = [*self._given_up, *(gpus.faults() if gpus else ())]
        return [printable(line) for line in lines[:MAX_FAULTS]]

    def gpu_place(self) -> list[str] | None:
        """UUIDs of the job's GPUs; None if they are unknown."""
        gpus = self._parts.get("gpus")
        return gpus.place() if gpus else (None if self._names else [])

    def gpu_moment(self) -> tuple[float | None, float | None]:
        """Seconds that the job's GPUs were at work so far, and memory in use on them."""
        gpus = self._parts.get("gpus")
        return gpus.moment() if gpus else (None, None)

    def saved(self) -> dict[str, Any]:
        """State from which another sampler goes on."""
        gpus = self._parts.get("gpus")
        return {
            "totals": {name: list(pair) for name, pair in self.totals().items()},
            "gpus": gpus.saved() if gpus else self._kept.get("gpus") or {},
            "given_up": self._given_up,
        }

    @property
    def cpu_s(self) -> float:
        """CPU seconds spent elsewhere for this job, less those of the look at what there is.

        That look is one for the job: were it paid back by a slower pace, a short job's first
        second would go unseen.
        """
        gpus = self._parts.get("gpus")
        return (gpus.cpu_s if gpus else 0.0) - self._look_s

    def close(self) -> None:
        """Give every counter back, and end what would outlive us; totals stay as they were."""
        for name, part in list(self._parts.items()):
            if name != "power":  # it holds nothing open
                self._guarded(name, part.close)

    def _makers(self) -> dict[str, Callable[[], Any]]:
        """Imported here: each only where the sampler comes to it."""
        from slurm_ext.node.counters.gpu.job_gpus import JobGpus
        from slurm_ext.node.counters.perf.job_counters import JobPerf
        from slurm_ext.node.counters.perf.syscall import PerfKernel
        from slurm_ext.node.counters.perf.uncore import Uncore
        from slurm_ext.node.counters.power import PowerMeter

        base = {name: pair[1] for name, pair in self._before.items()}
        return {
            "perf": lambda: JobPerf(base),
            "uncore": lambda: Uncore(PerfKernel(), base.get("perf_mem_bytes", 0.0)),
            "power": lambda: PowerMeter(base),
            "gpus": lambda: JobGpus(self._names, self._kept.get("gpus") or {}),
        }

    def _add(self, name: str, make: Callable[[], Any]) -> None:
        self._parts[name] = make()

    def _take(self, part: Any) -> None:
        self._now.update(part.totals())

    def _guarded(self, name: str, step: Callable[..., object], *args: object) -> None:
        try:
            step(*args)
        # A counter is never worth the record: whatever this source raised, it is given up.
        except Exception as error:
            self._parts.pop(name, None)
            self._given_up.append(f"{name}: given up: {type(error).__name__}: {error}"[:300])
