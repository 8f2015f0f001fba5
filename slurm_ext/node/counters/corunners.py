"""Other jobs on the node while a job ran: for how long, and which resources they shared."""

from __future__ import annotations

from slurm_ext.node.common import state
from slurm_ext.node.common.spool_layout import split_key
from slurm_ext.node.kernel.cpu_topology import shared_resources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from slurm_ext.node.common.spool_layout import Spool

MAX_JOBS = 256  # that a record names
MAX_COMPARED = 16  # whose files are read for one look


class CoRunners:
    """Other jobs beside the job `key`: seconds of overlap and shared resources, by job id."""

    def __init__(self, spool: Spool, key: str, job_state: Mapping[str, Any], now: float) -> None:
        self._spool, self._key, self._looked_s = spool, key, now
        self.overlap_s: dict[str, float] = dict(job_state.get("corunners") or {})
        self.shared: dict[str, dict[str, Any]] = dict(job_state.get("shared") or {})

    def meet(self, now: float) -> None:
        """Every other unfinished job of this node shared it since the last look."""
        for key in self._present():
            job = str(split_key(key)[0])
            if job in self.overlap_s or len(self.overlap_s) < MAX_JOBS:
                self.overlap_s[job] = self.overlap_s.get(job, 0.0) + now - self._looked_s
        self._looked_s = now

    def compare(self, place: Mapping[str, Any]) -> None:
        """Note what is shared with each present job that was not compared yet."""
        if not place.get("cpus"):
            return
        new = [key for key in self._present() if str(split_key(key)[0]) not in self.shared]
        for key in new[:MAX_COMPARED]:
            job, other = str(split_key(key)[0]), self._place(key)
            if job in self.overlap_s and other.get("cpus"):
                self.shared[job] = shared_resources(place, other)

    def _present(self) -> list[str]:
        ended = {self._key, *self._spool.keys("end", "record", "done")}
        return [key for key in self._spool.keys("json") if key not in ended]

    def _place(self, key: str) -> dict[str, Any]:
        place: dict[str, Any] = (state.load(self._spool, key, "json") or {}).get("place") or {}
        return place
