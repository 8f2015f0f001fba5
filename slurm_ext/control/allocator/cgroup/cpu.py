"""A job's share of CPUs and reads, by whatever this node offers: found, set, kept up, restored.

share = Share(place)               # control/allocator/cgroup/job_location.py: the job and its user
on this node
share.weigh(0.75, 1.0, 1.5)        # so many cores where all are wanted, and what others leave
share.limit(0.75)                  # a quota, in cores: never more
share.pin(frozenset({0, 1}))       # whole cores: cpuset where Slurm has one, else affinity
share.restore()                    # as Slurm left it
"""

from collections.abc import Callable, Mapping
from typing import Any

from slurm_ext.control.allocator.cgroup.affinity import Affinity
from slurm_ext.control.allocator.cgroup.attempts import undone
from slurm_ext.control.allocator.cgroup.cpuset import Cpuset
from slurm_ext.control.allocator.cgroup.job_location import JobGoneError, JobLocation
from slurm_ext.control.allocator.cgroup.quota import Quota, Weight
from slurm_ext.control.allocator.cgroup.reads import Reads

QUOTA, WEIGHT, CPUSET, AFFINITY = "quota", "weight", "cpuset", "affinity"
READS = "reads"


class Share:
    """One job's share. `note` is called before a change, when `kept` holds how to undo it.

    Every method may raise JobGoneError (the job has ended) or OSError; the job then is as it was,
    or `restore` makes it so.
    """

    def __init__(
        self,
        place: JobLocation,
        kept: Mapping[str, Any] | None = None,
        note: Callable[[], None] = lambda: None,
    ) -> None:
        self.place, self._note = place, note
        before = dict(kept or {})
        self._quota = Quota(place, before.get(QUOTA))
        self._weight = Weight(place, before.get(WEIGHT))
        self._cpuset = Cpuset(place, before.get(CPUSET))
        self._affinity = Affinity(place, before.get(AFFINITY))
        self._reads = Reads(place, before.get(READS))
        self.cores: float | None = None  # the quota that was set
        self.first = False
        self.weight: tuple[float, float] | None = None  # cores, and the mean of all
        self.pinned: frozenset[int] | None = None
        self.read_bytes_per_s: float | None = None

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """Those of quota, cpuset and affinity that can be set for this job."""
        cpuset = (CPUSET,) if self._cpuset.cores else ()
        return (*((QUOTA,) if self._quota.usable else ()), *cpuset, AFFINITY)

    @property
    def lends(self) -> bool:
        """True if the job can have a CPU weight, so that it may use what others leave."""
        return self._weight.usable

    @property
    def held_cores(self) -> float | None:
        """Cores beyond which we hold the job; None: none, as Slurm left it."""
        return self.cores if self.pinned is None else float(len(self.pinned))

    @property
    def own_cores(self) -> frozenset[int]:
        """The cores on which Slurm put the job, all where it did not."""
        return self._cpuset.cores or self._affinity.cores

    @property
    def kept(self) -> dict[str, Any]:
        """JSON that undoes our changes; empty if there are none."""
        kept: dict[str, Any] = {}
        if self.cores is not None:
            kept[QUOTA] = self._quota.kept
        if self.weight is not None:
            kept[WEIGHT] = self._weight.kept
        if self.pinned is not None:
            kept |= {CPUSET: self._cpuset.kept, AFFINITY: self._affinity.kept}
        if self.read_bytes_per_s is not None:
            kept[READS] = self._reads.kept
        return kept

    def limit(self, cores: float, *, first: bool = False) -> None:
        """At most `cores` cores' worth of time from now on; `first`: before others who want it."""
        if not self._quota.usable:
            raise JobGoneError("no CPU quota can be set for this job")
        self.cores, self.first = cores, first
        self._note()
        self._quota.give(cores, first=first)

    def weigh(
        self, cores: float, mean_cores: float, most_cores: float, *, latency_weight: float = 1.0
    ) -> None:
        """Sure of so many cores from now on, and of what others leave, up to `most_cores`.

        `latency_weight`: so many times the weight.
        """
        if not (self._weight.usable and self._quota.usable):
            raise JobGoneError("no CPU weight can be set for this job")
        self.weight, self.cores = (cores * latency_weight, mean_cores), most_cores
        self._note()
        self._weight.give(*self.weight)
        self._quota.cap(most_cores)

    def pin(self, cores: frozenset[int]) -> None:
        """Run on these cores only from now on."""
        constrained = self._cpuset.cores is not None
        if constrained:
            self._cpuset.plan(cores)
        self._affinity.plan(cores)
        self.pinned = cores
        self._note()
        if constrained:
            self._cpuset.give(cores)
        self._affinity.give(cores)  # inside a cpuset too: threads keep the mask they had

    def read_at_most(self, bytes_per_s: float | None, device: str) -> None:
        """From a block device, from now on; None: as much as there is, as before."""
        if bytes_per_s is None:
            self._read_freely()
            return
        if not self._reads.usable:
            raise JobGoneError("no reads can be limited for this job")
        self._reads.plan(device)
        self.read_bytes_per_s = bytes_per_s
        self._note()
        self._reads.give(bytes_per_s)

    def _read_freely(self) -> None:
        if self.read_bytes_per_s is not None and self._reads.restore():
            self.read_bytes_per_s = None

    def keep_up(self) -> None:
        """The same again for processes and steps that came since."""
        if self.cores is not None:
            self._quota.join()
        if self.weight is not None:
            self._weight.join()
        if self.read_bytes_per_s is not None:
            self._reads.join()
        if self.pinned is not None:
            self.pin(self.pinned)

    def restore(self) -> bool:
        """As Slurm left it; False: nothing holds the job any more, but call it again."""
        if self.pinned is not None:
            self._cpuset.restore()
            self._affinity.restore()
            self.pinned = None
        if self.cores is not None and self._quota.restore():
            self.cores = None
        if self.weight is not None and self._weight.restore():
            self.weight = None
        self._read_freely()
        return self.cores is None and self.weight is None and self.read_bytes_per_s is None


def undo(place: JobLocation, kept: Mapping[str, Any]) -> None:
    """Undo what another process changed and left behind."""
    share = Share(place, kept)
    share.cores = 0.0 if QUOTA in kept else None
    share.weight = (0.0, 0.0) if WEIGHT in kept else None
    share.read_bytes_per_s = 0.0 if READS in kept else None
    share.pinned = frozenset() if AFFINITY in kept else None
    undone(share.restore)
