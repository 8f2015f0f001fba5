"""Others' idle cores for a job's lent workers alone: given, taken back, undone.

lent = LentCpus(place)             # control/allocator/cgroup/job_location.py: the job and its user
lent.give(frozenset({3}), pids)    # beside the job's own cores, at idle priority
lent.restore()                     # as Slurm left it

Version 1: groups of our own (lent_groups.py). Version 2: Slurm finds a process by the one group
that it is in, so it stays there; that group and those above it, up to the job's, are widened, and
all other threads keep their cores by affinity. Without cpusets the lent workers' affinity is all.
What Slurm writes into a group meanwhile holds: it is not put back over it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from slurm_ext.control.allocator.cgroup import lent_threads
from slurm_ext.control.allocator.cgroup.cores import format_cores, parse_cores
from slurm_ext.control.allocator.cgroup.cpuset import job_group, read_cores
from slurm_ext.control.allocator.cgroup.job_location import JobLocation
from slurm_ext.control.allocator.cgroup.lent_groups import LentGroups

LENT = "lent"


class LentCpus:
    """One job's loans. `note` is called before a change, when `kept` holds how to undo it.

    `kept` in JSON's terms: `own` cores, lent `pids` with the moments at which they started, and
    `wide`, which maps a group of version 2 to its cores before and by us.
    """

    def __init__(
        self,
        place: JobLocation,
        kept: Mapping[str, Any] | None = None,
        note: Callable[[], None] = lambda: None,
    ) -> None:
        self._place, self._note = place, note
        self._groups = LentGroups(place)
        self.kept: dict[str, Any] = dict(kept or {})

    def own_cores(self, trainings: Collection[int]) -> frozenset[int] | None:
        """The cores that Slurm gave to the job, by cpuset or affinity; None: it is free to roam."""
        top = job_group(self._place)
        if top is None:
            return lent_threads.bound_cores(trainings)
        now = read_cores(top)
        before, ours = self.kept.get("wide", {}).get(str(top), (None, None))
        return parse_cores(before if before is not None and now == ours else now)

    def give(self, own: frozenset[int], cores: frozenset[int], workers: Collection[int]) -> None:
        """Let these processes run on `cores` beside the job's `own`, at idle priority.

        Call it again for workers that came since. Raises JobGoneError or OSError.
        """
        before = dict(self.kept)
        self.kept |= {"own": sorted(own), "pids": sorted(workers)}
        wide = self._plan_wide(own | cores, workers)
        if self.kept != before:
            self._note()
        lent_threads.lower(self._place, workers)
        if self._place.v2_folder() is None:
            self._groups.enter(workers, own | cores)
        else:
            self._widen(wide, own, workers)
        lent_threads.bind(self._place, workers, own | cores)

    def restore(self) -> bool:
        """As Slurm left it; False: a group of ours is not empty yet, call it again."""
        workers = self._groups.members() | self._still_ours()
        own = frozenset(self.kept.get("own", ()))
        left = self._groups.leave()
        for folder, (before, ours) in reversed(self.kept.get("wide", {}).items()):
            with suppress(OSError):
                if read_cores(Path(folder)) == ours:
                    Path(folder, "cpuset.cpus").write_text(before)
        if own:
            lent_threads.bind(self._place, workers, own)
        lent_threads.raise_again(self._place, workers)
        if left:
            self.kept = {}
        return left

    def _still_ours(self) -> set[int]:
        """Lent processes that are still the job's: a pid may be somebody else's by now."""
        pids = set(self.kept.get("pids", ()))
        return pids & self._place.pids() if pids else pids

    # -- version 2 -------------------------------------------------------------------------------

    def _plan_wide(self, cores: frozenset[int], workers: Collection[int]) -> list[Path]:
        """Note the groups to widen, from the job's down, with their cores before and by us."""
        top = self._place.v2_folder()
        if top is None:
            return []
        folders = list(dict.fromkeys(f for pid in workers for f in self._path_to(top, pid)))
        wide = dict(self.kept.get("wide", {}))
        for folder in folders:
            now = read_cores(folder)
            before, ours = wide.get(str(folder), (now, None))
            wide[str(folder)] = [before if now == ours else now, format_cores(cores)]
        self.kept["wide"] = wide
        return folders

    def _path_to(self, top: Path, pid: int) -> Iterator[Path]:
        """Groups from the job's to the process's with cores of their own; others follow."""
        with suppress(OSError):
            lines = Path(self._place.proc, str(pid), "cgroup").read_text().splitlines()
            path = next((line[3:] for line in lines if line.startswith("0::/")), "")
            inner = Path(self._place.mount, path.lstrip("/"))
            if inner.is_relative_to(top):
                parts = inner.relative_to(top).parts
                folders = [top.joinpath(*parts[:count]) for count in range(len(parts) + 1)]
                yield from (folder for folder in folders if read_cores(folder))

    def _widen(
        self, folders: Collection[Path], own: frozenset[int], workers: Collection[int]
    ) -> None:
        """Widen the groups; before and after, everybody else's threads are kept where they are.

        Since Linux 6.2 a mask that was set survives the change; earlier it is set again at once.
        """
        others = self._place.pids() - set(workers)
        texts = {folder: self.kept["wide"][str(folder)][1] for folder in folders}
        narrow = [folder for folder in folders if read_cores(folder) != texts[folder]]
        if narrow:
            lent_threads.confine(self._place, others, own, again=True)
        for folder in narrow:
            (folder / "cpuset.cpus").write_text(texts[folder])
        if folders:
            lent_threads.confine(self._place, others, own)


def undo_loan(place: JobLocation, kept: Mapping[str, Any]) -> bool:
    """Undo what another process lent and left behind; False: call it again."""
    return LentCpus(place, kept).restore()
