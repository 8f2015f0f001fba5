"""One round of placement: the jobs that start now, on what nodes have room for. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from slurm_ext.policy.colocation.choose_pairs import (
    Candidate,
    Pair,
    SharingRules,
    SpeedPredictor,
    pairs,
    why_not,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSlot:
    """One node with what nobody uses of it."""

    name: str
    free_cpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementAction:
    """Action for one waiting job."""

    job: str
    start: bool  # there is room for it
    place: str | None  # where; None: anywhere
    reason: str
    pair: Pair | None = None  # why there
    room: bool = True  # for it, or for one that passes it: it is we who keep it waiting
    free: bool = False  # not put off: Slurm may start it, there, as soon as there is room


class PlacementRound:
    """Takes the waiting in the queue's order; fills `steps`."""

    def __init__(
        self,
        waiting: Sequence[Candidate],
        running: Sequence[Candidate],
        places: Sequence[NodeSlot],
        slowdowns: SpeedPredictor,
        rules: SharingRules,
    ) -> None:
        self.waiting = sorted(waiting, key=lambda candidate: (candidate.rank, candidate.job))
        self.running, self.slowdowns, self.rules = list(running), slowdowns, rules
        self.free = {place.name: place.free_cpus for place in sorted(places, key=_name)}
        self.steps: dict[str, PlacementAction] = {}
        self.begun: list[Candidate] = []  # in this round

    def release(self, job: str, reason: str, *, start: bool) -> None:
        """It starts wherever Slurm pleases."""
        step = PlacementAction(job=job, start=start, place=None, reason=reason, free=True)
        self.steps[job] = step

    def begin_bound(self, bound: Mapping[str, str]) -> None:
        """Start jobs that Slurm is about to start, where they still may run beside the others."""
        for candidate in self.left():
            place = bound.get(candidate.job)
            if place is not None and self._has_room([candidate], place):
                here = [other for other in self.running if other.place == place]
                if not self.in_the_way(candidate, here):
                    self._begin(candidate, place, "its turn has come", None)

    def in_the_way(self, candidate: Candidate, here: Sequence[Candidate]) -> str | None:
        """Reason why it cannot join them; None if it can."""
        return why_not(candidate, here, self.slowdowns, self.rules) if here else None

    def begin_all(self) -> None:
        """Start all jobs that can start now without slowing others or themselves."""
        made = self.matched(self.left())
        self.join(made)
        self.settle(made)
        self.join(self.matched(self.left(), newcomers_only=True))

    def left(self) -> list[Candidate]:
        """Those without a step."""
        return [candidate for candidate in self.waiting if candidate.job not in self.steps]

    def matched(
        self, waiting: Sequence[Candidate], *, newcomers_only: bool = False
    ) -> tuple[Pair, ...]:
        """Pairs for places with room; `newcomers_only`: only with jobs that run."""
        open_now = [
            candidate for candidate in self.running if self.free.get(candidate.place or "", 0) > 0
        ]

        def fits(newcomers: Sequence[Candidate], place: str | None) -> bool:
            if place is None:
                return not newcomers_only and _meet(newcomers)
            return self._has_room(newcomers, place)

        return pairs(waiting, open_now, self.slowdowns, rules=self.rules, fits=fits)

    def join(self, made: Iterable[Pair]) -> None:
        """Newcomers start beside those that run."""
        by_job = {candidate.job: candidate for candidate in self.left()}
        for pair in made:
            if pair.place is not None:
                for job in set(pair.jobs) & set(by_job):
                    self._begin(by_job[job], pair.place, pair.reason, pair)

    def settle(self, made: Iterable[Pair]) -> None:
        """Give idle nodes, in the queue's order, to waiting pairs and jobs without a partner."""
        partner = {job: pair for pair in made if pair.place is None for job in pair.jobs}
        by_job = {candidate.job: candidate for candidate in self.left()}
        for candidate in self.left():
            if candidate.job in self.steps:
                continue
            pair = partner.get(candidate.job)
            together = [by_job[job] for job in pair.jobs] if pair else [candidate]
            place = self._idle(together)
            if place is not None:
                for member in together:
                    why = pair.reason if pair else "a node to itself"
                    self._begin(member, place, why, pair)

    def keep_waiting(self) -> None:
        """The rest, with what is in its way; a job that others pass may never find room."""
        taken: set[str] = set()  # by those behind it
        for candidate in reversed(self.waiting):
            step = self.steps.get(candidate.job)
            if step is None:
                passed = any(candidate.may_have(place) for place in taken)
                self.steps[candidate.job] = self._put_off(candidate, passed=passed)
            elif step.free and step.place is not None:
                taken.add(step.place)

    def _put_off(self, candidate: Candidate, *, passed: bool) -> PlacementAction:
        room = any(self._has_room([candidate], place) for place in self.free)
        why = self._why(candidate) if room else "no node has room"
        return PlacementAction(
            job=candidate.job, start=False, place=None, reason=why, room=room or passed
        )

    def _begin(self, candidate: Candidate, place: str, reason: str, pair: Pair | None) -> None:
        self.steps[candidate.job] = PlacementAction(
            job=candidate.job, start=True, place=place, reason=reason, pair=pair, free=True
        )
        self.free[place] -= candidate.cpus
        self.begun.append(replace(candidate, place=place))
        self.running.append(self.begun[-1])

    def _idle(self, together: Sequence[Candidate]) -> str | None:
        """A node where none of those that share runs, with room."""
        taken = {candidate.place for candidate in self.running}
        return next((n for n in self.free if n not in taken and self._has_room(together, n)), None)

    def _has_room(self, together: Sequence[Candidate], place: str) -> bool:
        """True if all of them may start there, and there are CPUs for all."""
        cpus = sum(candidate.cpus for candidate in together)
        able = all(candidate.may_have(place) for candidate in together)
        return able and cpus <= self.free.get(place, 0)

    def _why(self, candidate: Candidate) -> str:
        for place in self.free:
            here = [other for other in self.running if other.place == place]
            if here and self._has_room([candidate], place):
                return why_not(candidate, here, self.slowdowns, self.rules) or "others go first"
        return "others go first"


def _meet(together: Sequence[Candidate]) -> bool:
    """True if some node is open to all of them."""
    nodes = [candidate.nodes for candidate in together if candidate.nodes is not None]
    return not nodes or bool(frozenset.intersection(*nodes))


def _name(place: NodeSlot) -> str:
    return place.name
