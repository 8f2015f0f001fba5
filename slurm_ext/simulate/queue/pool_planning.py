"""A queue that is looked through as Slurm does: in order at each event, by backfill in rounds."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from math import inf

from slurm_ext.simulate.limits.budgets import Budgets
from slurm_ext.simulate.limits.preemption import Preemption
from slurm_ext.simulate.limits.victims import Victims
from slurm_ext.simulate.outages.nodes_there import NodesThere
from slurm_ext.simulate.planning.futures import End
from slurm_ext.simulate.planning.levels import Levels, Places, nodes_of
from slurm_ext.simulate.planning.rooms import Rooms
from slurm_ext.simulate.planning.round import Round
from slurm_ext.simulate.planning.scheduling import Scheduling
from slurm_ext.simulate.queue.job_columns import JobColumns
from slurm_ext.simulate.queue.limited_queue import LimitedQueue
from slurm_ext.simulate.queue.rank import number_of


class PlanningPool:
    """Starts jobs in order, and later ones where backfill keeps its promises."""

    def __init__(
        self,
        levels: Levels,
        work: JobColumns,
        rooms: Rooms,
        look: Scheduling,
        nodes: NodesThere,
        budgets: Budgets,
        preemption: Preemption | None = None,
        *,
        backfill: bool,
    ) -> None:
        self._levels, self._work, self._rooms, self._look = levels, work, rooms, look
        self._nodes, self._budgets, self._backfills = nodes, budgets, backfill
        depth = max(look.depth, min(look.queue_depth, 1000))
        self._line = LimitedQueue(depth, budgets)
        self._places: dict[int, Places] = {}
        self._ends: list[tuple[float, int]] = []  # when running jobs are expected to end
        self._changed = False  # since backfill's last round
        self._victims = Victims(preemption) if preemption else None
        self._leaves_s: dict[int, float] = {}  # when those leave who give way and run on till then
        self._pushed_out: list[int] = []  # since pushed_out() was called
        self._tick_s = 0.0 if budgets.period_s < inf else inf  # when minutes are counted next
        self.again_s = inf  # when to be called again, if nothing happens before

    @property
    def waiting(self) -> int:
        """Jobs in the queue."""
        return len(self._line)

    def arrive(self, rank: int) -> None:
        """A job was submitted."""
        self._line.push(rank)
        self._changed = True

    def again(self, before: int, rank: int) -> None:
        """A waiting job has another rank from now on."""
        self._line.drop(before)
        self.arrive(rank)

    def ranks(self) -> list[int]:
        """Ranks of all waiting jobs."""
        return self._line.ranks()

    def reorder(self, ranks: Sequence[int]) -> None:
        """All waiting jobs have other ranks from now on."""
        self._line = LimitedQueue(self._line.depth, self._budgets, ranks)
        self._changed = True

    def event(self, job: int, start: int, now_s: float) -> bool:
        """A job has ended; False: it had been stopped before."""
        if self._work.is_over(job, start):
            return False
        self._stop(job, now_s)
        self._work.ended(job, now_s)
        return True

    def nodes_change(self, now_s: float) -> list[int]:
        """Take nodes out, and back in, that change until now; the jobs that ran on failed ones.

        These are stopped; they may come again.
        """
        failed = self._nodes.change(self._levels, now_s)
        if failed is None:
            return []
        self._changed = True
        broken = [job for job, places in self._places.items() if failed & nodes_of(places)]
        for job in broken:
            self._stop(job, now_s)
        return broken

    def exhausted(self, now_s: float) -> dict[int, str]:
        """Stop the jobs whose minutes are used up, and say why, whenever Slurm counts minutes."""
        if now_s < self._tick_s:
            return {}
        period_s = self._budgets.period_s
        self._tick_s = (now_s // period_s + 1) * period_s
        self._changed |= self._line.look_at_meters()
        ended = {job: why for job in self._places if (why := self._budgets.exhausted(job))}
        for job in ended:
            self._stop(job, now_s)
        return ended

    def pushed_out(self) -> Sequence[int]:
        """Jobs that gave way since the last call; they may come again."""
        jobs, self._pushed_out = self._pushed_out, []
        return jobs

    def _stop(self, job: int, now_s: float) -> None:
        self._free(job, now_s)
        self._line.stopped(job)

    def _free(self, job: int, now_s: float) -> None:
        """Take a job from its nodes."""
        places = self._places.pop(job)
        self._levels.give(places)
        self._nodes.given(places, now_s)
        del self._ends[bisect_left(self._ends, (self._end_s(job), job))]
        self._leaves_s.pop(job, None)
        if self._victims:
            self._victims.stopped(job)
        self._changed = True

    def settle(self, now_s: float) -> None:
        """Start jobs in order; by backfill once its next round is due."""
        if self._victims:
            self._changed |= self._victims.more(now_s)
        over = [job for job, leaves_s in self._leaves_s.items() if leaves_s <= now_s]
        for job in over:
            self._stop(job, now_s)
        self._settle(now_s)
        for job in self._pushed_out:
            self._line.stopped(job)
            self.again_s = now_s  # what limits kept back may start by now
        self._pushed_out += over
        if self.waiting or self._places:
            self.again_s = min(self.again_s, self._nodes.next_s, self._tick_s)
        self.again_s = min([self.again_s, *self._leaves_s.values()])
        if self._victims and self.waiting:
            self.again_s = min(self.again_s, self._victims.next_s)

    def _settle(self, now_s: float) -> None:
        self.again_s = self._in_order(now_s)
        if not self._backfills or not self._changed or not self.waiting:
            return
        interval_s = self._look.interval_s
        round_s = -(-now_s // interval_s) * interval_s if interval_s else now_s
        if round_s > now_s:
            self.again_s = min(self.again_s, round_s)
            return
        self._changed = False
        self._round(now_s)

    def _in_order(self, now_s: float) -> float:
        """Start the first ones, until one has no room; its partition waits then."""
        taken, started = self._nodes.out, 0
        for rank in self._line.looked(self._look.queue_depth):
            job = number_of(rank)
            nodes = self._rooms.nodes[job] & ~taken
            if self._begin(rank, self._room(job, nodes, now_s), now_s):
                started += 1
            else:
                taken |= self._rooms.partition[job]
                if not self._victims and not self._levels.idle() & ~taken:
                    return inf
        more = started == self._look.queue_depth and self.waiting
        return now_s + self._look.sched_interval_s if more else inf

    def _round(self, now_s: float) -> None:
        """Look through the queue once, up to the last job that can still start."""
        look = Round(
            self._levels, self._work.limit_s, self._rooms, self._look, now_s, self._nodes.out
        )
        front = list(self._line.looked(self._look.depth))
        last = len(front) - 1
        for index, rank in enumerate(front):
            while last >= index and not self._may_start(look, number_of(front[last]), now_s):
                last -= 1
            if last < index:
                return  # promises to those behind would be worth nothing
            job = number_of(rank)
            if self._line.keeps_back(rank):
                continue  # for somebody has started meanwhile
            if self._begin(rank, self._room(job, look.open_now(job), now_s), now_s):
                look.changed()
            else:
                look.promise(job, self._running())

    def _may_start(self, look: Round, job: int, now_s: float) -> bool:
        return look.fits_now(job) or bool(self._givers(job, look.open_now(job), now_s))

    def _room(self, job: int, nodes: int, now_s: float) -> Places | None:
        """A place for a job now, which others may have to leave."""
        shape, packed = self._rooms.shape[job], self._look.packed
        places = self._levels.find(shape, nodes, packed=packed)
        if places is not None or not (givers := self._givers(job, nodes, now_s)):
            return places
        for other in givers:
            self._push_out(other, now_s)
        return self._levels.find(shape, nodes, packed=packed)

    def _push_out(self, job: int, now_s: float) -> None:
        """Have a job leave: at once, or once its time of grace is over."""
        grace_s = self._victims.grace_s(job) if self._victims else 0.0
        if not grace_s:
            self._free(job, now_s)
            self._pushed_out.append(job)
        elif job not in self._leaves_s:
            del self._ends[bisect_left(self._ends, (self._end_s(job), job))]
            self._leaves_s[job] = now_s + grace_s
            insort(self._ends, (self._end_s(job), job))

    def _end_s(self, job: int) -> float:
        """The expected end of a running job."""
        return min(self._work.expected_s[job], self._leaves_s.get(job, inf))

    def _givers(self, job: int, nodes: int, now_s: float) -> Sequence[int]:
        """Running jobs that have to go so that a job can start; none: not even so."""
        if self._victims is None:
            return ()
        shape = self._rooms.shape[job]
        return self._victims.for_job(job, shape, nodes, self._levels, self._places, now_s)

    def _running(self) -> Iterator[End]:
        return ((when_s, self._places[job]) for when_s, job in self._ends)

    def _begin(self, rank: int, places: Places | None, now_s: float) -> bool:
        """Start a job of the front, if it has a place."""
        index = self._line.index(rank)
        if places is None or index is None:
            return False
        job = number_of(rank)
        self._line.start(index)
        self._levels.take(places)
        self._places[job] = places
        self._work.begun(job, now_s)
        insort(self._ends, (self._work.expected_s[job], job))
        if self._victims:
            self._victims.started(job, now_s)
        return True
