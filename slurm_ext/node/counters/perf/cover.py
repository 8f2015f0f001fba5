"""Which processes are counted already: attached to, or born of one that was. Pure.

A counter opened with `inherit` counts the children that its thread will have, never those it has
(perf_event_open(2)). So each process is attached to once, and none twice: a doubled count is worse
than a missing one, which `perf_task_clock` beside the job's CPU time shows.

A stranger's child is a new task where its parent leads its session, as slurmstepd does (seen on
22.05); any other is an orphan of a process that was counted.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from slurm_ext.node.kernel.processes import JobProcess

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
ORPHAN = 0  # the root of a process whose parents are gone: one of ours, unknown which


class Coverage:
    """Follows one job's processes; `under` maps each to its start, its root, and since when."""

    def __init__(self) -> None:
        self.under: dict[int, tuple[int, int, float]] = {}

    def fresh(self, members: Mapping[int, JobProcess], now_s: float) -> list[int]:
        """Processes to attach to now (`now_s`: seconds since boot), oldest first."""
        covered = {
            pid: entry
            for pid, entry in self.under.items()
            if pid in members and members[pid].started == entry[0]
        }
        earlier, wanted = dict(covered), []
        for pid in sorted(members.keys() - covered.keys(), key=lambda p: (members[p].started, p)):
            born = self._born(pid, members, covered, earlier)
            if born is None:
                wanted.append(pid)
                born = (members[pid].started, pid, now_s)
            covered[pid] = born
        self.under = covered
        return wanted

    def needed(self, root: int) -> bool:
        """True if a living process may still be counted through this root's counters."""
        roots = {entry[1] for entry in self.under.values()}
        return root in roots or ORPHAN in roots

    def _born(
        self,
        pid: int,
        members: Mapping[int, JobProcess],
        earlier: Mapping[int, tuple[int, int, float]],
        before: Mapping[int, tuple[int, int, float]],
    ) -> tuple[int, int, float] | None:
        """Its entry, where a counter was there before it; None if it must be attached to."""
        process = members[pid]
        parent = earlier.get(process.parent)
        if parent is not None:
            late = (process.started + 1) * _TICK_S >= parent[2]
            inherited = late and (process.parent in before or parent[1] != process.parent)
            return (process.started, parent[1], parent[2]) if inherited else None
        if not before or process.parent == process.session:
            return None
        first_s = min(entry[2] for entry in before.values())
        late = (process.started + 1) * _TICK_S >= first_s
        return (process.started, ORPHAN, first_s) if late else None
