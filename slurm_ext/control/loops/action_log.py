"""Action log of a loop: `<state_dir>/moves/<kind>-<day>.jsonl`, a line an action.

The history writer reads it by offset (history/ingest/actions.py). A loop must not fail for its log:
what cannot be written is kept, tried again with the next actions, and reported once.
"""

import errno
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from slurm_ext.core.actions import KINDS, Action, encode_action
from slurm_ext.core.errors import RecordError
from slurm_ext.core.files import try_lock
from slurm_ext.core.ownership import appendable, make_folder, newline_if_torn

MOST_KEPT = 10_000  # lines in memory while the disk is full
LOCK_TRIES, LOCK_WAIT_S = 100, 0.02  # a write with its fsync takes some milliseconds
log = logging.getLogger("dlqueue.ledger")


class ActionLog:
    """Actions of one loop; days are UTC, by the clock at writing."""

    def __init__(
        self, state_dir: Path, kind: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is no kind of action; there are {', '.join(KINDS)}")
        self._folder, self._kind, self._clock = state_dir / "moves", kind, clock
        self._kept: deque[bytes] = deque()
        self._said = ""

    @property
    def kept(self) -> int:
        """Actions that are not on the disk yet."""
        return len(self._kept)

    def write(self, actions: Iterable[Action]) -> None:
        """Append them, and wait until they are on the disk. Never raises."""
        for action in actions:
            self._keep(action)
        if not self._kept:
            return
        try:
            self._append(b"".join(self._kept))
        except OSError as error:
            self._say(f"{self._folder}: {error.strerror or error}; actions are kept in memory")
        else:
            self._kept.clear()
            self._said = ""

    def _keep(self, action: Action) -> None:
        try:
            line = encode_action(action).encode()
        except RecordError as error:
            self._say(f"an action is not recorded: {error}")
            return
        if len(self._kept) >= MOST_KEPT:
            self._kept.popleft()
            self._say(f"{self._folder}: more than {MOST_KEPT} actions wait; the oldest are lost")
        self._kept.append(line)

    def _append(self, lines: bytes) -> None:
        """All of them, or OSError: then they are written again, and the reader knows them by id."""
        make_folder(self._folder)
        day = time.strftime("%Y%m%d", time.gmtime(self._clock()))
        file = appendable(self._folder / f"{self._kind}-{day}.jsonl", mode=0o640)
        try:
            _lock(file)
            view = memoryview(newline_if_torn(file) + lines)
            while view:
                view = view[os.write(file, view) :]
            os.fsync(file)
        finally:
            os.close(file)

    def _say(self, text: str) -> None:
        if text != self._said:
            log.warning("%s", text)
            self._said = text


def _lock(file: int) -> None:
    """Until it is closed: whether the last line is whole is seen between writes, not within one.

    Raises OSError where another writer stands still with it.
    """
    for _ in range(LOCK_TRIES):
        if try_lock(file):
            return
        time.sleep(LOCK_WAIT_S)
    raise BlockingIOError(errno.EAGAIN, "another loop holds the file")
