"""Measured speeds of jobs that share a node, by their live counters.

A job's speed is its instructions a second beside others, of those that it (or an earlier run of the
same) had alone. Where no performance counter is at hand, or the node's spool cannot be read from
here, nothing is measured and nothing concluded: history tells after the job has ended.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from slurm_ext.node.counters.live import live_counters, rates
from slurm_ext.policy.colocation.choose_pairs import Candidate
from slurm_ext.policy.colocation.colocation_monitor import (
    CoLocation,
    CoLocationState,
    Window,
    update,
)

SIGNAL, HELD = "perf_instructions", "mem_held_peak"
NEWEST = 0.3  # weight of the newest window in the rate alone
MOST_KNOWN = 10_000  # solo keys: memory that is written each round has an end
Reading = Mapping[str, tuple[str, float]]
Live = Callable[[str], Reading]


def on_this_machine(spool_dir: str) -> Live:
    """Readings of jobs whose node's spool is this folder."""
    return lambda job: live_counters(spool_dir, job)


@dataclass(slots=True)
class _MonitoredJob:
    beside: frozenset[str]
    reading: Reading
    colocation: CoLocation
    reported: bool = False


class SpeedMonitor:
    """Every running job's state; `solo_rates` (by solo key) grows while jobs are alone.

    `held_bytes` (by solo key): the most memory that a job was seen to hold.
    """

    def __init__(
        self,
        live: Live,
        solo_rates: dict[str, float],
        patience_s: float,
        held_bytes: dict[str, float] | None = None,
    ) -> None:
        self._live, self._rates, self._patience_s = live, solo_rates, patience_s
        self._held = {} if held_bytes is None else held_bytes
        self._jobs: dict[str, _MonitoredJob] = {}

    def look(
        self, running: Sequence[Candidate], floors: Mapping[str, float]
    ) -> dict[str, CoLocationState]:
        """Return jobs that are too slow or too large; each once beside the same others."""
        here: dict[str, list[Candidate]] = {}
        for candidate in running:
            here.setdefault(candidate.place or "", []).append(candidate)
        self._jobs = {
            candidate.job: self._jobs[candidate.job]
            for candidate in running
            if candidate.job in self._jobs
        }
        states: dict[str, CoLocationState] = {}
        for together in here.values():
            for candidate in together:
                beside = frozenset(other.job for other in together if other is not candidate)
                state = self._state_of(candidate, beside, floors[candidate.job])
                if state is not CoLocationState.FINE:
                    states[candidate.job] = state
        return states

    def speeds(self) -> dict[str, float | None]:
        """Mean speed of each job in its present company; None: not measured."""
        return {
            job: candidate.colocation.mean_speed
            for job, candidate in self._jobs.items()
            if candidate.beside
        }

    def _state_of(
        self, candidate: Candidate, beside: frozenset[str], floor: float
    ) -> CoLocationState:
        reading = self._live(candidate.job)
        if candidate.solo.key and HELD in reading:
            key = candidate.solo.key
            remember(self._held, key, max(self._held.get(key, 0.0), reading[HELD][1]))
        before = self._jobs.get(candidate.job)
        if before is None or before.beside != beside:
            fresh = CoLocation(job=candidate.job, floor=floor, patience_s=self._patience_s)
            self._jobs[candidate.job] = _MonitoredJob(
                beside=beside, reading=reading, colocation=fresh
            )
            return CoLocationState.FINE
        gained = rates(before.reading, reading)
        if SIGNAL in gained:
            seconds = reading["sample_s"][1] - before.reading["sample_s"][1]
            self._learn(candidate, before, gained[SIGNAL], seconds)
        if reading:
            before.reading = reading
        if before.colocation.state is CoLocationState.FINE or before.reported:
            return CoLocationState.FINE
        before.reported = True
        return before.colocation.state

    def _learn(
        self, candidate: Candidate, state: _MonitoredJob, rate: float, seconds: float
    ) -> None:
        key = candidate.solo.key
        alone = self._rates.get(key)
        if not state.beside:
            if key and rate > 0:
                old = rate if alone is None else alone
                remember(self._rates, key, old + NEWEST * (rate - old))
        elif alone:
            window = Window(seconds=seconds, speed=rate / alone)
            state.colocation = update(state.colocation, window)


def remember(values: dict[str, float], key: str, value: float, most: int = MOST_KNOWN) -> None:
    """As the newest of `values`; the one that was seen last longest ago makes room."""
    values.pop(key, None)
    values[key] = value
    while len(values) > most:
        del values[next(iter(values))]
