"""Which waiting job starts next, and where, so that good companions meet on a node. Pure.

Jobs of a node run on cores of their own; what they share is its caches, memory and storage. Slurm
starts the first that fits. Here whoever passes the floor (sharing.py) beside those that run starts
there, matched for the most time saved; a pair that waits takes an idle node; who fits nobody has
an idle node for itself; the rest waits for the next round. No place that some good companion could
use now is kept for a better one, and whoever has waited long enough starts as Slurm pleases.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from slurm_ext.policy.sharing import Candidate, Foretells, Pair, SharingRules, pairs, why_not


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One node with what nobody uses of it."""

    name: str
    free_cpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What becomes of one waiting job now."""

    job: str
    start: bool
    place: str | None  # where; None: anywhere
    reason: str
    pair: Pair | None = None  # why there
    room: bool = True  # some node has room for it: it is we who keep it waiting


def steer(
    waiting: Sequence[Candidate],
    running: Sequence[Candidate],
    places: Sequence[Place],
    slowdowns: Foretells,
    *,
    rules: SharingRules,
    overdue: frozenset[str] = frozenset(),
) -> tuple[Step, ...]:
    """One step for each waiting job, in the queue's order; raises InputError as `pairs`."""
    round_ = _Round(waiting, running, places, slowdowns, rules)
    for one in waiting:
        if one.job in overdue:
            round_.steps[one.job] = _start(one.job, None, "has waited long enough")
    made = round_.matched(round_.left())
    round_.join(made)
    round_.settle(made)
    round_.join(round_.matched(round_.left(), newcomers_only=True))
    round_.keep_waiting()
    ordered = sorted(waiting, key=lambda one: (one.rank, one.job))
    return tuple(round_.steps[one.job] for one in ordered)


class _Round:
    def __init__(
        self,
        waiting: Sequence[Candidate],
        running: Sequence[Candidate],
        places: Sequence[Place],
        slowdowns: Foretells,
        rules: SharingRules,
    ) -> None:
        self.waiting = sorted(waiting, key=lambda one: (one.rank, one.job))
        self.running, self.slowdowns, self.rules = list(running), slowdowns, rules
        self.free = {place.name: place.free_cpus for place in sorted(places, key=_name)}
        self.steps: dict[str, Step] = {}

    def left(self) -> list[Candidate]:
        """Those without a step."""
        return [one for one in self.waiting if one.job not in self.steps]

    def matched(
        self, waiting: Sequence[Candidate], *, newcomers_only: bool = False
    ) -> tuple[Pair, ...]:
        """Pairs for places with room; `newcomers_only`: only with jobs that run."""
        open_now = [one for one in self.running if self.free.get(one.place or "", 0) > 0]

        def fits(newcomers: Sequence[Candidate], place: str | None) -> bool:
            if place is None:
                return not newcomers_only
            return sum(one.cpus for one in newcomers) <= self.free.get(place, 0)

        return pairs(waiting, open_now, self.slowdowns, rules=self.rules, fits=fits)

    def join(self, made: Iterable[Pair]) -> None:
        """Newcomers start beside those that run."""
        by_job = {one.job: one for one in self.left()}
        for pair in made:
            if pair.place is not None:
                for job in set(pair.jobs) & set(by_job):
                    self._begin(by_job[job], pair.place, pair.reason, pair)

    def settle(self, made: Iterable[Pair]) -> None:
        """Pairs that wait, and whoever fits nobody, take idle nodes in the queue's order."""
        partner = {job: pair for pair in made if pair.place is None for job in pair.jobs}
        by_job = {one.job: one for one in self.left()}
        for one in self.left():
            if one.job in self.steps:
                continue
            pair = partner.get(one.job)
            together = [by_job[job] for job in pair.jobs] if pair else [one]
            place = self._idle(sum(each.cpus for each in together))
            if place is not None:
                for each in together:
                    why = pair.reason if pair else "a node to itself"
                    self._begin(each, place, why, pair)

    def keep_waiting(self) -> None:
        """The rest, with what is in its way."""
        for one in self.left():
            room = any(free >= one.cpus for free in self.free.values())
            why = self._why(one) if room else "no node has room"
            step = Step(job=one.job, start=False, place=None, reason=why, room=room)
            self.steps[one.job] = step

    def _begin(self, one: Candidate, place: str, reason: str, pair: Pair | None) -> None:
        self.steps[one.job] = Step(job=one.job, start=True, place=place, reason=reason, pair=pair)
        self.free[place] -= one.cpus
        self.running.append(replace(one, place=place))

    def _idle(self, cpus: int) -> str | None:
        """A node where none of those that share runs, with room."""
        taken = {one.place for one in self.running}
        return next((n for n, free in self.free.items() if n not in taken and free >= cpus), None)

    def _why(self, one: Candidate) -> str:
        for place, free in self.free.items():
            here = [other for other in self.running if other.place == place]
            if free >= one.cpus and here:
                return why_not(one, here, self.slowdowns, self.rules) or "others go first"
        return "others go first"


def _start(job: str, place: str | None, reason: str) -> Step:
    return Step(job=job, start=True, place=place, reason=reason)


def _name(place: Place) -> str:
    return place.name


def rooms(cpus: Mapping[str, int], used: Iterable[tuple[str, int]]) -> list[Place]:
    """Places by what each node has and what jobs (node, CPUs) use."""
    free = dict(cpus)
    for node, count in used:
        if node in free:
            free[node] -= count
    return [Place(name=name, free_cpus=max(0, count)) for name, count in sorted(free.items())]
