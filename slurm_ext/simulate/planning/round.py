"""One round of backfill: its promises to waiting jobs, and the starts that they allow.

As Slurm does: each job in turn starts at once or gets the earliest time at which it fits, a promise
that those behind it must keep. The next round begins without promises.
"""

from collections.abc import Iterator, Sequence

from slurm_ext.simulate.planning.futures import End, Futures
from slurm_ext.simulate.planning.levels import Levels, Need, Places, nodes_of
from slurm_ext.simulate.planning.reserved import Reserved
from slurm_ext.simulate.planning.rooms import Rooms
from slurm_ext.simulate.planning.scheduling import Scheduling


class Round:
    """Promises to jobs, by number; `limit_s` is their time limit."""

    def __init__(
        self,
        levels: Levels,
        limit_s: Sequence[float],
        rooms: Rooms,
        look: Scheduling,
        now_s: float,
        out: int = 0,
    ) -> None:
        """`out`: nodes that take no jobs."""
        self._levels, self._limit_s, self._rooms = levels, limit_s, rooms
        self._look, self._now_s, self._out = look, now_s, out
        self._reserved = Reserved()
        self._futures: Futures | None = None
        # By room and nodes: for how long somebody asked, and before when there was none for that.
        self._lacked: dict[tuple[Need, int], dict[float, float]] = {}

    def fits_now(self, job: int) -> bool:
        """True if the job can start at once and all promises are kept."""
        return self._levels.fits(self._rooms.shape[job], self.open_now(job))

    def open_now(self, job: int) -> int:
        """Nodes that the job may be on at once."""
        return self._open(job, self._now_s)

    def changed(self) -> None:
        """A job has started."""
        self._futures = None
        self._lacked = {}

    def promise(self, job: int, running: Iterator[End]) -> None:
        """Keep room for a job that cannot start; `running`: ends of those that run, by time."""
        if len(self._reserved) == self._look.reservations:
            return
        if self._futures is None:
            self._futures = Futures(self._levels, running, self._now_s, self._look)
        earliest = self._earliest(job, self._futures)
        if earliest is not None:
            start_s, places = earliest
            end_s, unit = start_s + self._limit_s[job], self._look.resolution_s
            if unit:
                start_s, end_s = start_s // unit * unit, end_s // unit * unit
            self._reserved.add(start_s, end_s, nodes_of(places))

    def _earliest(self, job: int, futures: Futures) -> tuple[float, Places] | None:
        """Start and place that keep all promises; None: not within bf_window.

        Where room lacked, it lacks for whoever asks for it later, for as long or longer: promises
        only grow. Where a place met a promise, a later look may find another place.
        """
        last_s = self._now_s + self._look.window_s
        limit_s, shape = self._limit_s[job], self._rooms.shape[job]
        lacked_s = self._lacked.setdefault((shape, self._rooms.nodes[job]), {})
        before = (when_s for asked_s, when_s in lacked_s.items() if asked_s <= limit_s)
        from_s, lacked = max(before, default=self._now_s), True
        while from_s <= last_s:
            nodes, later_s = self._open(job, from_s), self._reserved.next_end(from_s)
            room = futures.first(shape, nodes, min(last_s, later_s))
            if lacked:
                lacked_s[limit_s] = from_s
            if room:
                start_s = max(room[0], from_s)
                places = self._place(room[1], job, nodes) or ()
                promised = self._reserved.within(start_s, start_s + limit_s)
                if start_s == from_s or not promised & nodes_of(places):
                    return start_s, places
                lacked = False
            if later_s == from_s:
                return None
            from_s = later_s
        return None

    def _open(self, job: int, from_s: float) -> int:
        """Nodes that the job may be on, and that nobody was promised while it would run."""
        promised = self._reserved.within(from_s, from_s + self._limit_s[job])
        return self._rooms.nodes[job] & ~(promised | self._out)

    def _place(self, levels: Levels, job: int, nodes: int) -> Places | None:
        return levels.find(self._rooms.shape[job], nodes, packed=self._look.packed)
