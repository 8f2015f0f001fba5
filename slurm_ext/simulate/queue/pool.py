"""One virtual cluster with a queue of its own: who starts now. Jobs that run are left alone."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

from slurm_ext.simulate.queue.bounded_queue import BoundedQueue
from slurm_ext.simulate.queue.job_columns import JobColumns
from slurm_ext.simulate.queue.nodes import Nodes, Places
from slurm_ext.simulate.queue.rank import number_of
from slurm_ext.simulate.queue.reserve import Reservation, reserve


class NonPreemptingPool:
    """Starts jobs in order; with a depth, later ones too where they delay no reservation."""

    def __init__(self, nodes: Nodes, work: JobColumns, depth: int | None) -> None:
        """`depth`: how many waiting jobs backfill looks at; None: no backfill."""
        self._nodes, self._work = nodes, work
        self._backfills = depth is not None
        self._line: BoundedQueue[int] = BoundedQueue(depth or 1)
        self._places: dict[int, Places] = {}
        self._ends: list[tuple[float, int]] = []  # when running jobs are expected to end
        self._reservation: Reservation | None = None
        self._came: list[int] = []  # into the front, since the last look: only they can start
        self._left = False

    @property
    def waiting(self) -> int:
        """Jobs in the queue."""
        return len(self._line)

    def arrive(self, rank: int) -> None:
        """A job was submitted."""
        if self._line.push(rank):
            self._came.append(rank)

    def again(self, before: int, rank: int) -> None:
        """A waiting job has another rank from now on."""
        self._line.drop(before)
        self._line.push(rank)
        self._left = True  # whoever stands elsewhere now, or came to the front, is looked at

    def ranks(self) -> list[int]:
        """Ranks of all waiting jobs."""
        return self._line.ranks()

    def reorder(self, ranks: Sequence[int]) -> None:
        """All waiting jobs have other ranks from now on."""
        self._line = BoundedQueue(self._line.depth, ranks)
        self._left = True

    def event(self, job: int, _start: int, now_s: float) -> bool:
        """A job has ended: always true here."""
        self._nodes.give(self._places.pop(job))
        expected = (self._work.expected_s[job], job)
        del self._ends[bisect_left(self._ends, expected)]
        self._left = True
        if expected[0] != now_s:
            self._reservation = None  # it was made for another end
        self._work.ended(job, now_s)
        return True

    def settle(self, now_s: float) -> None:
        """Start every job that can, after all events at `now_s`."""
        while self._line.front and self._begin(0, now_s, None):
            self._reservation = None  # whoever had it has started, or somebody more urgent came
        head = self._reservation.job if self._reservation else None
        if self._backfills and len(self._line) > 1:
            self._reserve(now_s)
            anew = self._left or head != number_of(self._line.front[0])
            self._backfill(now_s, self._line.front[1:] if anew else sorted(self._came))
        self._came, self._left = [], False

    def _begin(self, index: int, now_s: float, spare: dict[int, int] | None) -> Places | None:
        """Start the job at an index of the front, where it fits."""
        job = number_of(self._line.front[index])
        places = self._nodes.find(self._work.gpus[job], spare)
        if places is None:
            return None
        self._line.pop(index)
        self._nodes.take(places)
        self._places[job] = places
        self._work.begun(job, now_s)
        insort(self._ends, (self._work.expected_s[job], job))
        return places

    def _reserve(self, now_s: float) -> None:
        """Plan for the first; the plan holds until he starts, or until somebody ends early."""
        first, plan = number_of(self._line.front[0]), self._reservation
        if plan is None or plan.job != first or now_s >= plan.start_s:
            gpus = self._work.gpus[first]
            self._reservation = reserve(self._nodes, first, gpus, self._releases(now_s))

    def _releases(self, now_s: float) -> Iterator[tuple[float, int, Places]]:
        for end_s, job in self._ends:
            yield max(end_s, now_s), job, self._places[job]

    def _backfill(self, now_s: float, among: list[int]) -> None:
        """Start later jobs of the front, where the reservation is kept."""
        plan, work = self._reservation, self._work
        if plan is None or not self._nodes.total:
            return
        no_room = no_spare = self._nodes.total + 1  # the least GPUs for which a search was in vain
        for rank in among:
            job = number_of(rank)
            gpus = work.gpus[job]
            if gpus >= no_room:
                continue
            short = now_s + work.limit_s[job] <= plan.start_s
            if not short and gpus >= no_spare:
                continue
            index = self._line.index(rank)
            if index is None:
                continue  # it has started, or was pushed out of the front
            places = self._begin(index, now_s, None if short else plan.spare)
            if places is None:
                no_room, no_spare = (gpus, gpus) if short else (no_room, gpus)
            elif not short:
                plan.hold(places)
            if no_room == 1:
                return
