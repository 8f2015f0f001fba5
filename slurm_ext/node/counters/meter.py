"""One job's counters from the best source each: its control group, else /proc; and hardware's."""

from __future__ import annotations

from slurm_ext.node.counters.hardware import HardwareCounters
from slurm_ext.node.kernel import cgroup
from slurm_ext.node.kernel.cpu_topology import allowed_cpus
from slurm_ext.node.kernel.processes import NAMES, PROC, JobProcesses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

SWITCHES_EVERY = 5  # samples: reading every thread costs most
_PRESSURES = ("cpu", "memory", "io")


class JobMeter:
    """Reads one job; `totals` maps a counter to its source and value, and never goes down."""

    def __init__(
        self,
        identity: Mapping[str, Any],
        kept: Mapping[str, Any],
        *,
        gpus: Sequence[str] = (),
        proc: str = PROC,
        mount: str = cgroup.MOUNT,
    ) -> None:
        self._job_id = int(identity["job_id"])
        self._uid, self._node = int(identity["uid"]), str(identity["node"])
        self._proc, self._mount = proc, mount
        self.processes = JobProcesses(self._job_id, self._uid, self._node, proc)
        self.totals: dict[str, tuple[str, float]] = {}
        self._host_base: dict[str, float] = {}
        self._group: cgroup.Cgroup | None = None
        self._samples = 0
        self.mem_now: float | None = None
        self.cpus: str | None = None  # that the job may run on, as the kernel lists them
        self.hardware = HardwareCounters(gpus, kept.get("hardware") or {})
        self._resume(kept)

    def sample(self, *, last: bool = False) -> bool:
        """Read everything once; True if anything of the job is still there."""
        self._group = self._group or cgroup.find(self._job_id, self._uid, self._node, self._mount)
        group = self._group if self._group and self._group.exists() else None
        pids = group.pids() if group else self.processes.find()
        if group is None and self._group is None and pids:
            self._group = group = self._group_of(min(pids))
        self.processes.update(pids, switches=last or self._samples % SWITCHES_EVERY == 0)
        self._samples += 1
        self._take(group)
        self.hardware.sample(self.processes.members, group, last=last)
        self._take_hardware()
        return bool(pids) or group is not None

    def look_around(self) -> dict[str, Any]:
        """The job's place: `{"cpus": "0-3", "gpus": [UUID, ...]}`, null for the unknown."""
        for pid in sorted(self.processes.members, reverse=True):
            self.cpus = allowed_cpus(pid, self._proc) or self.cpus
            break
        return {"cpus": self.cpus, "gpus": self.hardware.gpu_place()}

    def saved(self) -> dict[str, object]:
        """State from which another sampler goes on counting without a step down."""
        return {
            "totals": {name: list(pair) for name, pair in self.totals.items()},
            "host_base": self._host_base,
            "departed": [*self.processes.departed, self.processes.departed_switches],
            "hardware": self.hardware.saved(),
        }

    def cpu_s(self) -> float | None:
        """CPU time so far, user and system."""
        pairs = [self.totals.get(name) for name in ("cpu_user", "cpu_system")]
        return sum(pair[1] for pair in pairs if pair) if any(pairs) else None

    def _take(self, group: cgroup.Cgroup | None) -> None:
        self.mem_now = self.processes.rss_bytes()
        for name, value in self.processes.totals().items():
            self._raise(name, "proc", value)
        self._raise("mem_peak", "proc/rss", self.mem_now)
        if group:
            counters = group.read()
            self.mem_now = counters.pop("mem_now", None) or self.mem_now
            for name, value in counters.items():
                self._raise(name, group.source, value)
        self._take_pressure()

    def _take_hardware(self) -> None:
        counted = self.hardware.totals()
        gone = [name for name in self.totals if "@" in name and name not in counted]
        for name in gone if self.hardware.looked else ():
            del self.totals[name]  # a GPU that was lost: half of its figures would look like all
        self.totals.update(counted)

    def _take_pressure(self) -> None:
        """Take the node's pressure since the first sample if the job's own is not counted."""
        for what in _PRESSURES:
            now = cgroup.pressure_s(_text(f"{self._proc}/pressure/{what}"))
            if now is not None:
                base = self._host_base.setdefault(what, now)
                self._raise(f"pressure_{what}_some", "proc/pressure", now - base)

    def _raise(self, name: str, source: str, value: float | None) -> None:
        """Keep the larger value of one source; a control group's counter outranks /proc's."""
        if value is None:
            return
        before = self.totals.get(name)
        if before is None or (before[0] != source and source.startswith("cgroup")):
            self.totals[name] = (source, value)
        elif before[0] == source:
            self.totals[name] = (source, max(before[1], value))

    def _group_of(self, pid: int) -> cgroup.Cgroup | None:
        text = _text(f"{self._proc}/{pid}/cgroup") or ""
        return cgroup.of_process(text, self._job_id, self._mount)

    def _resume(self, saved: Mapping[str, Any]) -> None:
        """Go on from an earlier sampler's figures, as our own state file holds them."""
        totals = saved.get("totals", {})
        self.totals = {name: (str(pair[0]), float(pair[1])) for name, pair in totals.items()}
        self._host_base = {name: float(base) for name, base in saved.get("host_base", {}).items()}
        departed = saved.get("departed")
        if departed:
            self.processes.departed = list(departed[: len(NAMES)])
            self.processes.departed_switches = float(departed[-1])


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(65536)
    except OSError:
        return None
