"""One virtual cluster whose running jobs give way to more urgent ones."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import heappush

from slurm_ext.policy.queue.preempting import Preempting
from slurm_ext.simulate.queue.bounded_queue import BoundedQueue
from slurm_ext.simulate.queue.job_columns import JobColumns
from slurm_ext.simulate.queue.nodes import Nodes, Places
from slurm_ext.simulate.queue.rank import number_of
from slurm_ext.simulate.queue.reserve import reserve

Urgency = tuple[float, int]  # lower goes first: the rule's key, then the submission


class PreemptingPool:
    """Runs the most urgent jobs that fit; a job keeps its place until it must go."""

    def __init__(self, nodes: Nodes, work: JobColumns, depth: int, rule: Preempting) -> None:
        self._nodes, self._work, self._rule = nodes, work, rule
        self._line: BoundedQueue[Urgency] = BoundedQueue(depth)
        self._places: dict[int, Places] = {}
        self._since: dict[int, float] = {}  # of running jobs
        self._had: dict[int, float] = {}  # GPU-seconds before the present start
        self._owed: dict[int, float] = {}  # seconds of restarting at the present start
        self._left: dict[int, float] = {}  # seconds of work at the last stop
        self._number: dict[int, int] = {}  # of starts
        self._standing: list[Urgency] = []  # of running jobs, the most urgent first
        self._urgency: dict[int, Urgency] = {}  # of running jobs, as they stand
        self._as_of_s: float | None = None  # where urgency drifts with time

    @property
    def waiting(self) -> int:
        """Jobs in the queue."""
        return len(self._line)

    def arrive(self, rank: int) -> None:
        """A job was submitted; of its rank the number alone counts here."""
        rank = number_of(rank)
        self._had[rank], self._left[rank] = 0.0, self._work.duration_s[rank]
        self._number[rank] = 0
        self._wait(rank)

    def event(self, rank: int, number: int, now_s: float) -> bool:
        """A job has ended; False: it sinks a class, or the event is of a start cut short."""
        if self._number.get(rank) != number or rank not in self._places:
            return False
        if now_s < self._end_s(rank):
            self._stand(rank, now_s)
            self._announce(rank, now_s)
            return False
        self._free(rank, now_s)
        for column in (self._had, self._left, self._number, self._since, self._owed):
            del column[rank]
        self._work.ended(rank, now_s)
        return True

    def settle(self, now_s: float) -> None:
        """Start the most urgent ones, on free GPUs and on those of less urgent jobs."""
        front = self._line.front
        index, in_vain = 0, len(self._nodes.free) * self._nodes.per_node + 1
        while index < len(front) and in_vain > 1:
            urgency = front[index]
            if not self._nodes.total and next(self._less_urgent(urgency, now_s), None) is None:
                return  # nothing is free and nobody gives way, to those behind even less
            gpus = self._work.gpus[urgency[1]]
            places = None
            if gpus < in_vain:
                places = self._nodes.find(gpus) or self._push_out(urgency, gpus, now_s)
            if places is None:
                in_vain = min(in_vain, gpus)
                index += 1
                continue
            self._line.pop(index)  # whoever was pushed out stands behind it
            self._begin(urgency[1], places, now_s)

    def _push_out(self, urgency: Urgency, gpus: int, now_s: float) -> Places | None:
        """A place that less urgent jobs leave, the least urgent first; None: not even so."""
        worse = enumerate(self._less_urgent(urgency, now_s))
        releases = ((float(turn), rank, self._places[rank]) for turn, rank in worse)
        plan = reserve(self._nodes, urgency[1], gpus, releases)
        if plan is None:
            return None
        wanted = dict(plan.places)
        for rank in plan.walked:
            if any(self._nodes.free[node] < wanted.get(node, 0) for node, _ in self._places[rank]):
                self._free(rank, now_s)
                self._work.restarts[rank] = self._work.restarts.get(rank, 0) + 1
                self._wait(rank)
        return plan.places

    def _less_urgent(self, urgency: Urgency, now_s: float) -> Iterator[int]:
        """Running jobs behind an urgency, the least urgent first."""
        if self._rule.drifts and self._as_of_s != now_s:
            self._urgency = {rank: self._now(rank, now_s) for rank in self._places}
            self._standing = sorted(self._urgency.values())
            self._as_of_s = now_s
        for standing in reversed(self._standing):
            if standing <= urgency:
                return
            yield standing[1]

    def _stand(self, rank: int, now_s: float) -> None:
        """Put a running job where it stands by now."""
        self._stand_no_more(rank)
        self._urgency[rank] = self._now(rank, now_s)
        insort(self._standing, self._urgency[rank])

    def _stand_no_more(self, rank: int) -> None:
        urgency = self._urgency.pop(rank, None)
        if urgency is not None:
            del self._standing[bisect_left(self._standing, urgency)]

    def _wait(self, rank: int) -> None:
        left = self._left[rank] * self._work.gpus[rank]
        self._line.push((self._rule.key(self._had[rank], left), rank))

    def _begin(self, rank: int, places: Places, now_s: float) -> None:
        self._nodes.take(places)
        self._places[rank] = places
        self._since[rank] = now_s
        self._number[rank] += 1
        self._owed[rank] = self._rule.restart_s if self._number[rank] > 1 else 0.0
        if self._number[rank] == 1:
            self._work.start_s[rank] = now_s
        self._work.changes.append((now_s, self._work.gpus[rank]))
        self._stand(rank, now_s)
        self._announce(rank, now_s)

    def _free(self, rank: int, now_s: float) -> None:
        """A job stops, done or not."""
        self._nodes.give(self._places.pop(rank))
        self._stand_no_more(rank)
        self._had[rank], self._left[rank] = self._so_far(rank, now_s)
        self._work.changes.append((now_s, -self._work.gpus[rank]))

    def _announce(self, rank: int, now_s: float) -> None:
        """Have the engine call when the job ends or sinks a class."""
        sinks_s = self._rule.until_next(self._so_far(rank, now_s)[0]) / self._work.gpus[rank]
        when_s = min(self._end_s(rank), now_s + sinks_s)
        heappush(self._work.events, (when_s, rank, self._number[rank]))

    def _end_s(self, rank: int) -> float:
        return self._since[rank] + self._owed[rank] + self._left[rank]

    def _so_far(self, rank: int, now_s: float) -> tuple[float, float]:
        """GPU-seconds that a running job has had, and seconds of work that are left."""
        ran_s = now_s - self._since[rank]
        had = self._had[rank] + ran_s * self._work.gpus[rank]
        return had, self._left[rank] - max(0.0, ran_s - self._owed[rank])

    def _now(self, rank: int, now_s: float) -> Urgency:
        """Urgency of a running job."""
        had, left = self._so_far(rank, now_s)
        return self._rule.key(had, left * self._work.gpus[rank]), rank
