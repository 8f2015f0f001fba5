"""Keeps the advisor's memory up to date from the files of <state_dir>, beside the answering thread.

Whatever is locked, damaged or absent is said once in the log, and what is known stays in use.
"""

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from slurm_ext.advisor.buckets.memory import BucketMemory
from slurm_ext.advisor.evidence.calibrate import NEWEST, factors_of
from slurm_ext.advisor.evidence.prior import serving
from slurm_ext.advisor.evidence.runs import COLUMNS, LEVELS, NO_KEY, RunTable
from slurm_ext.advisor.evidence.standing import Standings, site_standing, standing_of_user
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.core.errors import DlqueueError
from slurm_ext.core.job_keys import record_keys
from slurm_ext.core.records import Level
from slurm_ext.core.settings.document import reloaded
from slurm_ext.core.successes import REFRESH, mark_success
from slurm_ext.history.store.names import STORED_LEVELS
from slurm_ext.history.store.reading import connect
from slurm_ext.history.store.store import History
from slurm_ext.history.views.columns import SERVER_COLUMNS, loader_count, loader_rows
from slurm_ext.history.views.outcomes import fair_outcomes, outcomes_of_user, users_since
from slurm_ext.model.freed_memory import give_back

EVERY_S = 1.0
MARK_EVERY_S = 15.0
_WORK_TO_REST = 19  # at most a twentieth of the time goes into judging outcomes
BUSY_MS = 500  # of a locked history; the next look comes soon
MOST_RUNS = 1_000_000  # read at first and kept in memory, at most: the newest
_CHUNK = 8192
_BLOCK = 8  # chunks of the first load that are taken in at once
_KEYS = 1  # where the keys begin in a row of SERVER_COLUMNS, then the owners, then the values
_USER = _KEYS + len(STORED_LEVELS)
_ACCOUNT, _VALUES = _USER + 1, _USER + 2
_PLACES = {level: _KEYS + place for place, level in enumerate(STORED_LEVELS)}
_KIND = _PLACES[Level.KIND]
_NUMBERS = frozenset((int, float, type(None)))
log = logging.getLogger(__name__)


class Refresher(threading.Thread):
    """Looks at history, model and settings every second."""

    def __init__(self, advisor: Advisor, config: Path | None, *, marks: bool = False) -> None:
        """`marks`: leave the time of the last success in the state folder."""
        super().__init__(name="refresh", daemon=True)
        self._advisor, self._config = advisor, config
        self._stop_asked = threading.Event()
        self._reload_asked = threading.Event()
        self._last_id = 0
        self._judged_id, self._judge_due_s = 0, 0.0  # runs up to this id are judged
        self._history: History | None = None
        self._said: dict[str, str] = {}
        self._marks, self._marked_s = marks, float("-inf")

    def run(self) -> None:
        """Refresh until stopped."""
        while not self._stop_asked.wait(EVERY_S):
            self.refresh()

    def stop(self) -> None:
        """End soon."""
        self._stop_asked.set()

    def reload_settings(self) -> None:
        """Read the settings file again with the next look."""
        self._reload_asked.set()

    def refresh(self) -> None:
        """One look at everything."""
        if self._reload_asked.is_set():
            self._reload_asked.clear()
            self._guarded("settings", self._settings)
        self._guarded("history", self._runs)
        self._guarded("model", self._model)
        self._guarded("run times", self._run_times)
        if self._advisor.settings["sharing.mode"] != "off":
            self._guarded("who shares", self._sharing)
        if self._advisor.settings["communication.mode"] != "off":
            self._guarded("gradient buckets", self._buckets)
        if self._marks and not self._said and time.monotonic() >= self._marked_s + MARK_EVERY_S:
            self._marked_s = time.monotonic()
            mark_success(self._advisor.settings.state_dir, REFRESH)

    def faults(self) -> dict[str, str]:
        """Reasons why the last look left something as it was, by what it looked at."""
        return dict(self._said)

    def _guarded(self, what: str, look: Callable[[], None]) -> None:
        """One look; a failure is logged when it is new, and the next look tries again."""
        try:
            look()
        except DlqueueError as error:
            self._say(what, str(error), fault=False)
        except Exception as error:  # of ours, or the disk's: the other looks go on, and the thread
            self._say(what, repr(error), fault=True)
        else:
            self._said.pop(what, None)

    def _say(self, what: str, why: str, *, fault: bool) -> None:
        if self._said.get(what) != why:
            log.warning("%s stays as it was: %s", what, why, exc_info=fault)
        self._said[what] = why

    def _settings(self) -> None:
        settings, waiting = reloaded(self._config, self._advisor.settings)
        self._advisor.settings = settings
        log.info("settings read again from %s", settings.source)
        if waiting:
            log.warning("%s changed and will be used after a restart", ", ".join(waiting))

    def _model(self) -> None:
        advisor = self._advisor
        advisor.priors = serving(advisor.settings.state_dir / "models", advisor.priors)

    def _run_times(self) -> None:
        self._advisor.runtimes.look(self._advisor.settings.state_dir)

    def _sharing(self) -> None:
        self._advisor.sharing.look(self._advisor.settings.state_dir)

    def _buckets(self) -> None:
        advisor = self._advisor
        if self._history is not None:
            advisor.buckets.look(self._history, advisor.settings["policy.min_gain"])

    def _runs(self) -> None:
        path = self._advisor.settings.state_dir / "history.db"
        if not path.exists():
            return
        if self._history is not None and self._history.replaced():
            self._forget_connection()
            self._advisor.runs, self._last_id = RunTable(), 0
            self._judged_id, self._judge_due_s = 0, 0.0
            self._advisor.buckets = BucketMemory()
        try:
            if self._history is None:
                # Not open_history: its check of versions brings 15 MiB of libraries along. Columns
                # that are not there are a HistoryError too, until the history writer has migrated.
                self._history = History(
                    path, connect(path, busy_timeout_ms=BUSY_MS), BUSY_MS / 1000
                )
            self._take_new(self._history)
            if self._last_id != self._judged_id and time.monotonic() >= self._judge_due_s:
                self._judge(self._history)
        except DlqueueError:
            self._forget_connection()
            raise

    def _judge(self, history: History) -> None:
        """Judge what came since this succeeded last; the longer it takes, the longer it rests."""
        began_s, newest = time.monotonic(), self._last_id
        self._calibrate(history, self._judged_id)
        self._judged_id, ended_s = newest, time.monotonic()
        rest_s = _WORK_TO_REST * (ended_s - began_s)
        self._judge_due_s = ended_s + rest_s if rest_s > EVERY_S else ended_s

    def _calibrate(self, history: History, last_id: int) -> None:
        """New outcomes, behind the id `last_id`, say how far the intervals can be trusted."""
        conn, path, advisor = history.conn, history.path, self._advisor
        newest = fair_outcomes(conn, path, NEWEST)
        judged = {
            user: standing_of_user(outcomes_of_user(conn, path, user))
            for user in users_since(conn, path, last_id)
        }
        advisor.factors = factors_of(newest)
        users = {**advisor.standings.users, **judged} if last_id else judged
        advisor.standings = Standings(users, site_standing(newest))

    def _take_new(self, history: History) -> None:
        if self._advisor.runs.held > MOST_RUNS * 1.1:
            self._advisor.runs, self._last_id = RunTable(), 0
        if len(self._advisor.runs) == 0:
            self._take_all(history)
        else:
            for rows in _chunks(loader_rows(history, self._last_id)):
                self._append([rows], len(rows))

    def _take_all(self, history: History) -> None:
        """The first load: in blocks, so that memory never holds much that no answer reaches."""
        count = loader_count(history)
        chunks = _chunks(islice(loader_rows(history), max(0, count - MOST_RUNS), None))
        room = min(count, _BLOCK * _CHUNK)
        for first in chunks:
            self._append(chain([first], islice(chunks, _BLOCK - 1)), room)
        gc.collect()
        gc.freeze()
        give_back()

    def _append(self, chunks: Iterable[list[tuple[Any, ...]]], room: int) -> None:
        values = np.empty((room, len(COLUMNS)), np.float32)
        keys = [np.empty(room, np.int64) for _ in LEVELS]
        owners, filled = np.empty(room, np.int32), 0
        for rows in chunks:
            kept = self._readable(rows[: room - filled])
            part = slice(filled, filled + len(kept))
            with np.errstate(over="ignore"):
                values[part, :-1] = np.array([row[_VALUES:-1] for row in kept], np.float64)
            values[part, -1] = [self._advisor.runs.code(row[-1]) for row in kept]
            owners[part] = [self._advisor.runs.owner(row[_USER]) for row in kept]
            owned = [_kind_keys(row[_USER], None, row[_ACCOUNT], row[_KIND]) for row in kept]
            for level, column in zip(LEVELS, keys, strict=True):
                if level in _PLACES:
                    column[part] = [row[_PLACES[level]] or NO_KEY for row in kept]
                else:
                    column[part] = [of_row.get(level, NO_KEY) for of_row in owned]
            filled += len(kept)
            self._last_id = max(self._last_id, rows[-1][0])
        if filled:
            # Popped, so that the table is the only owner and can free each column in turn.
            columns = [keys.pop(0)[:filled] for _ in LEVELS]
            self._advisor.runs.extend(values[:filled], columns, owners[:filled])
            self._keep_reached()

    def _keep_reached(self) -> None:
        """Leave out runs that no answer reaches, where they are many."""
        table = self._advisor.runs.compacted()
        if table is not self._advisor.runs:
            self._advisor.runs = table
            give_back()

    def _readable(self, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Rows whose values have their types; another must not stop those behind it."""
        readable = [row for row in rows if _NUMBERS.issuperset(map(type, row[_VALUES:-1]))]
        if len(readable) < len(rows):
            self._advisor.counters.unreadable_runs += len(rows) - len(readable)
        return readable

    def _forget_connection(self) -> None:
        if self._history is not None:
            self._history.close()
            self._history = None


_kind_keys = lru_cache(maxsize=1 << 14)(record_keys)  # most runs are of few programs


def _chunks(rows: Iterator[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    for first in rows:
        yield list(chain([first], islice(rows, _CHUNK - 1)))


if SERVER_COLUMNS[_VALUES:] != COLUMNS:
    raise ImportError("history's columns are not the advisor's")
