"""Running jobs that give way to a waiting one, as Slurm picks them.

In the order of their value (priority of the QOS, tier of the partition), then of their nodes, one
after the other is taken away until the job fits; those that it would fit beside stay.
"""

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from math import inf

from slurm_ext.simulate.limits.preemption import Preemption
from slurm_ext.simulate.planning.levels import Levels, Need, Places


class Victims:
    """The running jobs of one pool that may give way."""

    def __init__(self, rules: Preemption) -> None:
        self.rules = rules
        self._since: dict[int, dict[int, float]] = {}  # by kind: running jobs, and their starts
        self._exempt: list[float] = []  # when jobs cease to be, as a heap
        self._in_vain: set[tuple[int, Need, int]] = set()  # kind, room, nodes

    def started(self, job: int, now_s: float) -> None:
        """A job runs."""
        kind = self.rules.kind[job]
        self._since.setdefault(kind, {})[job] = now_s
        if self.rules.exempt_s[kind]:
            heappush(self._exempt, now_s + self.rules.exempt_s[kind])
        self._in_vain.clear()

    def stopped(self, job: int) -> None:
        """It runs no more."""
        del self._since[self.rules.kind[job]][job]
        self._in_vain.clear()

    def grace_s(self, job: int) -> float:
        """For how long it runs on when it gives way."""
        return self.rules.grace_s[self.rules.kind[job]]

    def more(self, now_s: float) -> bool:
        """True if a job has ceased to be exempt since the last call."""
        before = len(self._exempt)
        while self._exempt and self._exempt[0] <= now_s:
            heappop(self._exempt)
        if len(self._exempt) < before:
            self._in_vain.clear()
        return len(self._exempt) < before

    @property
    def next_s(self) -> float:
        """The time at which the next running job ceases to be exempt."""
        return self._exempt[0] if self._exempt else inf

    def for_job(
        self,
        job: int,
        shape: Need,
        among: int,
        levels: Levels,
        places: Mapping[int, Places],
        now_s: float,
    ) -> Sequence[int]:
        """Jobs that have to go so that a job fits on some nodes; none: not even so."""
        kind = self.rules.kind[job]
        if not self.rules.gives_way[kind] or (kind, shape, among) in self._in_vain:
            return ()
        later, gone = levels.copy(), list[int]()
        for other in self._candidates(kind, places, now_s):
            later.give(places[other])
            gone.append(other)
            if later.fits(shape, among):
                return [
                    victim
                    for victim in reversed(gone)
                    if not _spared(victim, later, shape, among, places)
                ]
        self._in_vain.add((kind, shape, among))
        return ()

    def _candidates(self, kind: int, places: Mapping[int, Places], now_s: float) -> Sequence[int]:
        """Those who may have to go, the first one first."""
        candidates = [
            (self.rules.value[other], len(places[job]), job)
            for other in sorted(self.rules.gives_way[kind])
            for job, since_s in self._since.get(other, {}).items()
            if since_s + self.rules.exempt_s[other] <= now_s
        ]
        return [job for _, _, job in sorted(candidates)]


def _spared(job: int, later: Levels, shape: Need, among: int, places: Mapping[int, Places]) -> bool:
    """True if the room is there beside a job, which then stays."""
    later.take(places[job])
    if later.fits(shape, among):
        return True
    later.give(places[job])
    return False
