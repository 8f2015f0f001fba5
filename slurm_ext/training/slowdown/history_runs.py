"""Reads jobs alone and jobs together from history.db, to fit the slowdown of sharing.

Bounded whatever the history holds: the newest MOST_TOGETHER runs beside others, and the newest few
runs alone of each job that is in them and of MOST_OTHERS more.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import groupby
from math import isfinite
from statistics import median
from typing import Any

from slurm_ext.core.gpu_sharing import CorunMeasurement, SoloProfile
from slurm_ext.core.stats import POOL_USERS, fair_newest
from slurm_ext.history.store.store import History
from slurm_ext.history.views.shared_runs import (
    PARTNER_COLUMNS,
    RUN_COLUMNS,
    alone_rows,
    counters_of,
    together_rows,
)
from slurm_ext.model.slowdown.model import MOST_SEEN
from slurm_ext.model.slowdown.pair_measurement import is_usable
from slurm_ext.training.slowdown.rows import Beside, MeasuredRun, beside, runs_of, speed

MOST_TOGETHER = 20_000
MOST_OTHERS = 4_000  # jobs that never shared, known by their counters alone
MOST_ALONE = 16  # runs of one job in one shape
MOST_OF_JOB = 256  # in all its shapes: a sweep has one for every run
MOST_HELD = 100_000  # in all; then a job has MOST_ALONE in all its shapes
MOST_OF_USER = MOST_SEEN // POOL_USERS  # runs together, where others have fewer
MOST_COUNTED = 4  # newest runs of a job whose counters are read
# Ends of the names of counters that are levels, not sums over the run.
_LEVELS = ("_peak", "_mean", "_share", "_util", "_clock", "_active", "_occupancy")
_NOT_OF_JOB = ("node_", "contention_cost")


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRun:
    """One run together, and its end: the split is by time."""

    together: CorunMeasurement
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingHistory:
    """Shared runs of a history. `refused`: runs together that are no measurement."""

    rows: tuple[SharedRun, ...]  # oldest first
    solos: Mapping[str, SoloProfile]
    refused: int


def sharing_history(history: History) -> SharingHistory:
    """Read the newest runs together that have comparable runs alone, and those jobs alone."""
    met = _met(together_rows(history))
    names = {name for shared_run in met for name in (shared_run.run.key, *shared_run.partners)}
    alone = _alone(alone_rows(history), names)
    rows, refused = [], 0
    for shared_run in met:
        rates = [run.rate for run in alone.get((shared_run.run.key, shared_run.run.shape), ())]
        if not rates:
            continue
        row = _row(shared_run, median(rates))
        refused += row is None
        rows += [row] if row else []
    rows.sort(key=lambda row: row.end_s)
    places = fair_newest([row.together.owner for row in rows], least=MOST_OF_USER)
    fair = tuple(rows[place] for place in places)
    return SharingHistory(rows=fair, solos=_solos(history, alone), refused=refused)


def _met(table: Iterable[Sequence[Any]]) -> list[Beside]:
    """Newest first, at most MOST_TOGETHER."""
    shared: list[Beside] = []
    for rows in _by_run(table):
        shared_run = beside(rows)
        if shared_run is not None:
            shared.append(shared_run)
        if len(shared) >= MOST_TOGETHER:
            break
    return shared


def _by_run(table: Iterable[Sequence[Any]]) -> Iterator[list[dict[str, Any]]]:
    names = (*RUN_COLUMNS, *PARTNER_COLUMNS)
    named = (dict(zip(names, row, strict=True)) for row in table)
    for _, rows in groupby(named, key=lambda row: row["run"]):
        yield list(rows)


def _alone(
    table: Iterable[Sequence[Any]], met: AbstractSet[str]
) -> dict[tuple[str, tuple[Any, ...]], list[MeasuredRun]]:
    """The newest runs by job and shape: of jobs in `met`, and of the newest others."""
    groups: dict[tuple[str, tuple[Any, ...]], list[MeasuredRun]] = defaultdict(list)
    kept: Counter[str] = Counter()
    others: set[str] = set()
    held = 0
    for row in table:
        ways = runs_of(dict(zip(RUN_COLUMNS, row, strict=True)))
        if not ways:
            continue
        run = ways[0]
        if run.key not in met and run.key not in others:
            if len(others) >= MOST_OTHERS:
                continue
            others.add(run.key)
        most = MOST_OF_JOB if held < MOST_HELD else MOST_ALONE
        if kept[run.key] >= (most if run.key in met else MOST_COUNTED):
            continue
        room = [way for way in ways if len(groups[way.key, way.shape]) < MOST_ALONE]
        for way in room:
            groups[way.key, way.shape].append(way)
        kept[run.key] += bool(room)
        held += bool(room)
    return groups


def _row(shared_run: Beside, solo_rate: float) -> SharedRun | None:
    """A short overlap is measured worse: its seconds count by its share of the run."""
    together = CorunMeasurement(
        job=shared_run.run.key,
        partners=shared_run.partners,
        speed=speed(shared_run, solo_rate),
        seconds=shared_run.overlap_s * shared_run.overlap_s / shared_run.run.elapsed_s,
        device=shared_run.run.device,
        owner=shared_run.run.user,
    )
    return SharedRun(together=together, end_s=shared_run.run.end_s) if is_usable(together) else None


def _solos(
    history: History, alone: Mapping[tuple[str, tuple[Any, ...]], Sequence[MeasuredRun]]
) -> dict[str, SoloProfile]:
    by_job: dict[str, list[MeasuredRun]] = defaultdict(list)
    for (key, _), solo_runs in alone.items():
        by_job[key] += solo_runs
    runs = {
        run.run: run
        for solo_runs in by_job.values()
        for run in sorted({one.run: one for one in solo_runs}.values(), key=lambda one: -one.end_s)[
            :MOST_COUNTED
        ]
    }
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs.values():
        values[run.key]  # a job without counters is known, too
    for number, name, value in counters_of(history, runs):
        run = runs[number]
        if isfinite(value) and value >= 0 and not name.startswith(_NOT_OF_JOB):
            values[run.key][name].append(value if _is_level(name) else value / run.elapsed_s)
    return {key: _solo(key, solo_runs) for key, solo_runs in values.items()}


def _solo(key: str, values: Mapping[str, Sequence[float]]) -> SoloProfile:
    """Medians over runs: levels as they are, sums a second of the run.

    Its memory is the most that it held, not its request; the file cache does not count.
    """
    features = {name: median(series) for name, series in values.items() if series}
    most = {name: max(series) for name, series in values.items() if series}
    return SoloProfile(
        key=key,
        features=features,
        mem_bytes=most.get("mem_held_peak"),
        gpu_mem_bytes=most.get("gpu_job_mem_peak", most.get("gpu_mem_peak")),
    )


def _is_level(name: str) -> bool:
    plain = name.partition("@")[0]
    return plain.endswith(_LEVELS) or plain.startswith("contention_")
