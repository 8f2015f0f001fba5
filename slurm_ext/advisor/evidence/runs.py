"""The runs that answers may rest on, in columns: some 200 bytes a run, the newest of a key at once.

Rows are appended in the order of history. On each level, `prev` leads from a row to the one before
it with the same key; the newest row of a key is its head. Heads of large loads stand in sorted
arrays (a dict of a million keys would cost 100 MiB), later ones in a dict over them.
Of levels that are of anybody, no user's runs are more than a share of what is read.
One thread appends; others may read at the same time, because a head is published last.
No answer reaches back further than some runs of a key, so that the others are left out of the next
table, and memory follows scripts and users, not the history's length (reach.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import count, islice
from math import nan
from typing import Any

import numpy as np
import numpy.typing as npt

from slurm_ext.advisor.evidence.asked import asked_key
from slurm_ext.advisor.evidence.own_receives import NotedRuns, OwnReceives
from slurm_ext.advisor.evidence.reach import chains_of, found, merged, reached, renumbered
from slurm_ext.advisor.evidence.summary import EvidenceSummary, summarize
from slurm_ext.core.gpu_request import plain_name
from slurm_ext.core.records import (
    MOST_POOLED,
    OWN_LEVELS,
    POOLED_LEVELS,
    Level,
    LoaderRun,
    Submission,
)
from slurm_ext.core.stats import fair_rows
from slurm_ext.model.throughput.estimate import Prior

Keys = npt.NDArray[np.int64]
Values = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int32]

COLUMNS = tuple(f.name for f in fields(LoaderRun))
LEVELS = tuple(Level)
NEWEST = 16  # runs that the evidence of one level consists of
NO_KEY = 0  # a key that is not known; blake2b gives a real key this value once in 2^64
_BULK = 4096  # rows from which sorted heads are cheaper than the dict
_GROWTH = 1.25
_SPARE = 8192  # rows behind those that are needed, at least, before these are kept alone
_MOST_SUMMARIES = 4096
_serials = count()
_MOST_CACHED = 16_384  # rows kept as Python objects: some 10 MiB
_INTEGERS = tuple(
    COLUMNS.index(name)
    for name in (
        "workers",
        "worker_rss_bytes",
        "node_cores",
        "gpus",
        "user_workers",
        "ranks",
        "nodes",
        "doubt",
        "refused",
        "threads",
        "on_cpu",
        "data_key",
    )
)
_EMULATED = COLUMNS.index("emulated")
_WORKERS, _DOUBT = COLUMNS.index("workers"), COLUMNS.index("doubt")
_ANY_JOB = Submission()
_TEXT = "gpu_model"  # the last column: a number in the table's list of names
_MOST_TEXTS = 1000  # GPU models that a cluster can have seen; jobs name them
_MOST_WALKED = 256  # runs of anybody that are looked at for those of several users


class RunTable:
    """Evidence of runs by similarity key."""

    def __init__(self) -> None:
        self._size = 0
        self._left_out = 0  # runs of earlier tables that no answer reaches
        self._needed = 0  # rows of the beginning
        self._values: Values = np.empty((0, len(COLUMNS)), np.float32)
        self._owners: Rows = np.empty(0, np.int32)
        self._prev: list[Rows] = [np.empty(0, np.int32) for _ in LEVELS]
        none: tuple[Keys, Rows] = (np.empty(0, np.int64), np.empty(0, np.int32))
        self._sorted = [none] * len(LEVELS)
        self._heads: list[dict[int, int]] = [{} for _ in LEVELS]
        self._cache: dict[int, LoaderRun] = {}  # by row; rows never change
        self._summaries: dict[tuple[object, ...], EvidenceSummary] = {}
        self._serial = next(_serials)
        self._codes: dict[str, int] = {}
        self._texts: list[str] = []
        self._models = ""  # plain names of these
        self._users: dict[str | None, int] = {}
        self._noted = NotedRuns()

    def __len__(self) -> int:
        """Count the runs that were taken in; `held` of them are in memory."""
        return self._left_out + self._size

    @property
    def held(self) -> int:
        """Rows in memory."""
        return self._size

    @property
    def receives(self) -> OwnReceives:
        """Receive times; made when asked, so that a table that is left is free at once."""
        return OwnReceives(self._runs_at, self._users, self._noted)

    def code(self, text: str | None) -> float:
        """The number that stands for a text in `values`."""
        if text is None:
            return nan
        if text not in self._codes and len(self._texts) < _MOST_TEXTS:
            self._texts.append(text)  # first: readers look up what they find
            self._codes[text] = len(self._texts) - 1
            self._models += f"{plain_name(text)}\n"
        return self._codes.get(text, nan)

    def owner(self, user: str | None) -> int:
        """The number that stands for a user in `owners`; one for all runs of nobody known."""
        return self._users.setdefault(user, len(self._users))

    def extend(self, values: Values, keys: list[Keys], owners: Rows) -> None:
        """Append rows: `values` in the order of COLUMNS (NaN: not measured), `keys` by level.

        All of it now belongs to the table: nothing large is held twice.
        """
        first, count = self._size, len(values)
        self._owners = np.concatenate((self._owners[:first], owners))
        self._append(values)
        taught = (values[:, _WORKERS] > 0) & np.isnan(values[:, _DOUBT])
        self.receives.note(first + np.flatnonzero(taught), owners[taught])
        link = self._link_sorted if count >= _BULK else self._link
        for level in range(len(LEVELS)):
            link(level, keys, first)

    def compacted(self) -> "RunTable":
        """This table, or one with what answers reach alone where that is markedly less."""
        if self._size <= max(_GROWTH * self._needed, self._needed + _SPARE):
            return self
        kept = self._reached()
        table = RunTable()
        table._left_out = len(self) - len(kept)
        table._size = table._needed = len(kept)
        table._values, table._owners = self._values[kept], self._owners[kept]
        table._codes, table._texts, table._models = self._codes, self._texts, self._models
        table._users = self._users
        table._noted = self._noted.kept(kept)
        for level, prev in enumerate(self._prev):
            known, heads = self._chains(level)
            table._prev[level] = renumbered(prev[kept], kept)
            table._sorted[level] = (known, renumbered(heads, kept))
        return table

    def _reached(self) -> Rows:
        """Rows that an answer may rest on, in order."""
        needed = np.zeros(self._size, bool)
        needed[self.receives.rows()] = True
        for number, level in enumerate(LEVELS):
            most = _MOST_WALKED if level in POOLED_LEVELS else NEWEST
            reached(needed, self._prev[number], self._chains(number)[1], most)
        return np.flatnonzero(needed).astype(np.int32)

    def _chains(self, level: int) -> tuple[Keys, Rows]:
        """Every key, sorted, and its newest row."""
        return merged(self._sorted[level], chains_of(self._heads[level]))

    def newest(self, keys: Mapping[Level, int], levels: Sequence[Level] = LEVELS) -> "NewestRuns":
        """The newest runs of each level's key, newest first; a level without any is left out."""
        heads = [
            self._head(number, keys[level]) if level in keys and level in levels else -1
            for number, level in enumerate(LEVELS)
        ]
        return NewestRuns(self, heads, (self._serial, *heads))

    def summary(
        self,
        evidence: "NewestRuns",
        prior: Prior | None,
        own: Sequence[Level] = OWN_LEVELS,
        job: Submission = _ANY_JOB,
    ) -> EvidenceSummary:
        """The summary of these runs; kept, as the scripts of a sweep rest on the same ones."""
        receives = self.receives.of(job.user_name)
        mark = (evidence.version, prior, own, asked_key(job, self._models), receives)
        summary = self._summaries.get(mark)
        if summary is None:
            if len(self._summaries) >= _MOST_SUMMARIES:
                self._summaries.clear()
            summary = self._summaries[mark] = summarize(evidence, prior, own, job, receives)
        return summary

    def chain(self, level: Level, head: int) -> list[LoaderRun]:
        """At most NEWEST runs of a key from its row `head` on, newest first."""
        walk = self._walk(self._prev[LEVELS.index(level)], head)
        if level in POOLED_LEVELS:
            walked = list(islice(walk, _MOST_WALKED))
            rows = [walked[at] for at in fair_rows(self._owners[walked].tolist(), MOST_POOLED)]
        else:
            rows = list(islice(walk, NEWEST))
        return self._runs_at(rows)

    def _runs_at(self, rows: Sequence[int]) -> list[LoaderRun]:
        cache = self._cache
        missing = [row for row in rows if row not in cache]
        if len(cache) + len(missing) > _MOST_CACHED:
            cache.clear()
            missing = list(rows)
        if missing:
            values = self._values[missing].tolist()
            cache.update(
                (row, _run(v, self._texts)) for row, v in zip(missing, values, strict=True)
            )
        return [cache[row] for row in rows]

    def _walk(self, prev: Rows, row: int) -> Iterator[int]:
        while row >= 0:
            yield row
            row = int(prev[row])

    def _head(self, level: int, key: int) -> int:
        """The newest row with `key`, or -1."""
        head = self._heads[level].get(key)
        if head is not None:
            return head
        sorted_keys, heads = self._sorted[level]
        at = int(sorted_keys.searchsorted(key))
        return int(heads[at]) if at < len(sorted_keys) and sorted_keys[at] == key else -1

    def _link(self, level: int, keys: list[Keys], first: int) -> None:
        column, heads = keys.pop(0), self._heads[level]
        prev = self._prev[level] = _longer(self._prev[level], len(self._values))
        for row, key in enumerate(column.tolist(), start=first):
            prev[row] = self._head(level, key) if key != NO_KEY else -1
            if key != NO_KEY:
                heads[key] = row

    def _link_sorted(self, level: int, keys: list[Keys], first: int) -> None:
        """All rows at once: equal keys stand together after a stable sort, oldest first."""
        column = keys.pop(0)  # taken here and not by the caller, so that it is freed when sorted
        order = np.argsort(column, kind="stable").astype(np.int32)
        column = column[order]
        order += first
        same = column[1:] == column[:-1]
        prev = _longer(self._prev[level], len(self._values))
        prev[order[1:][same]] = order[:-1][same]
        oldest = np.append(True, ~same)
        known = self._chains(level)
        prev[order[oldest]] = found(known, column[oldest])
        self._prev[level] = prev
        last = np.append(~same, True) & (column != NO_KEY)
        self._sorted[level] = merged(known, (column[last], order[last]))
        self._heads[level] = {}  # last: until now it leads to older runs

    def _append(self, values: Values) -> None:
        """The rows' values, not yet to be found; readers may go on with the arrays they hold."""
        first, size = self._size, self._size + len(values)
        if size > len(self._values):
            self._values = _wider(self._values[:first], values, int(first * _GROWTH))
        else:
            self._values[first:size] = values
        self._size = size


class NewestRuns(Mapping[Level, Sequence[LoaderRun]]):
    """The newest runs of some keys; a level's runs are made when they are first read."""

    __slots__ = ("_heads", "_runs", "_table", "version")

    def __init__(self, table: RunTable, heads: Sequence[int], version: tuple[int, ...]) -> None:
        self._table, self._runs = table, dict[Level, list[LoaderRun]]()
        self._heads = {level: head for level, head in zip(LEVELS, heads, strict=True) if head >= 0}
        self.version = version  # equal as long as the runs are the same

    def __getitem__(self, level: Level) -> list[LoaderRun]:
        if level not in self._runs:
            self._runs[level] = self._table.chain(level, self._heads[level])
        return self._runs[level]

    def __iter__(self) -> Iterator[Level]:
        return iter(self._heads)

    def __len__(self) -> int:
        return len(self._heads)


def _wider(old: Values, new: Values, room: int) -> Values:
    """`old` and `new` in one array with room to spare; the first rows are taken as they are."""
    if not len(old):
        return new
    size = len(old) + len(new)
    wider = np.empty((max(size, room), len(COLUMNS)), np.float32)
    wider[: len(old)] = old
    wider[len(old) : size] = new
    return wider


def _longer(prev: Rows, size: int) -> Rows:
    """The same chain with room for `size` rows; readers may go on with the old one."""
    if size <= len(prev):
        return prev
    return np.concatenate((prev, np.full(size - len(prev), -1, np.int32)))


def _run(row: list[float], texts: Sequence[str]) -> LoaderRun:
    values: list[Any] = [None if number != number else number for number in row]  # NaN: unknown
    for column in _INTEGERS:
        if values[column] is not None:
            values[column] = int(values[column])
    values[_EMULATED] = bool(values[_EMULATED])
    values[-1] = None if values[-1] is None else texts[int(values[-1])]
    return LoaderRun(**dict(zip(COLUMNS, values, strict=True)))


if COLUMNS[-1] != _TEXT:
    raise ImportError("a LoaderRun ends with its text")
