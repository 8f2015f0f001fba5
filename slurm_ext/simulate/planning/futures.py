"""The nodes as they will be once running jobs have ended, as Slurm looks ahead: in coarse steps.

Jobs that end within a step of one another are taken to end together, with the last of them. The
first step is 30 seconds; each is twice the one before, or longer by bf_window_linear. Source:
slurm.conf(5), bf_window_linear.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from slurm_ext.simulate.planning.levels import Levels, Need, Places
from slurm_ext.simulate.planning.scheduling import Scheduling

End = tuple[float, Places]  # when a running job is expected to end, and what it holds


class Futures:
    """States of the nodes, the present first, each with more free; computed as far as asked."""

    def __init__(self, levels: Levels, ends: Iterator[End], now_s: float, look: Scheduling) -> None:
        """`levels`: the present ones. `ends`: by time."""
        self._times, self._states = [now_s], [levels]
        self._rest = self._later(_grouped(ends, look), now_s)

    def first(self, shape: Need, among: int, last_s: float) -> tuple[float, Levels] | None:
        """The first state in which a job fits; None: not until then, which one look tells."""
        while self._times[-1] <= last_s and not self._states[-1].fits(shape, among):
            state = next(self._rest, None)
            if state is None:
                return None
            self._times.append(state[0])
            self._states.append(state[1])
        until = bisect_right(self._times, last_s)
        if not until or not self._states[until - 1].fits(shape, among):
            return None
        place = bisect_left(
            self._states, True, 0, until - 1, key=lambda state: state.fits(shape, among)
        )
        return self._times[place], self._states[place]

    def _later(
        self, groups: Iterator[Sequence[End]], now_s: float
    ) -> Iterator[tuple[float, Levels]]:
        for group in groups:
            levels = self._states[-1].copy()
            for _, places in group:
                levels.give(places)
            yield max(group[-1][0], now_s), levels


def _grouped(ends: Iterator[End], look: Scheduling) -> Iterator[Sequence[End]]:
    """Ends that count as one."""
    group: list[End] = []
    step_s = look.step_s
    for end in ends:
        if group and end[0] > group[0][0] + step_s:
            yield group
            group, step_s = [], step_s + look.linear_s if look.linear_s else step_s * 2
        group.append(end)
    if group:
        yield group
