"""The demand of one pool as the loop sees it: what is remembered, and what is recorded."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from slurm_ext.core.ownership import appendable, make_folder, newline_if_torn
from slurm_ext.model.demand.model import DAY, SLOT_S, WEEK
from slurm_ext.model.demand.series import NOBODY, RecordedDemand, read, series_of, series_path

KEPT_SLOTS = WEEK + DAY  # as far back as features look, and a day
log = logging.getLogger("dlqueue.energy")

OpenSlot = tuple[int, int, int, int]  # slot, need, total, the user who wanted the most


def open_slot(kept: Sequence[int]) -> OpenSlot:
    """Read the slot that an earlier process left; before users were noted it had three numbers."""
    slot, need, total, user = (*kept, NOBODY)[:4]
    return slot, need, total, user


class DemandRecorder:
    """A pool's series; `writes` is False for a look that leaves no trace.

    `running` is the slot that has not ended, as an earlier process left it.
    """

    def __init__(self, folder: Path, pool: str, running: OpenSlot | None, *, writes: bool) -> None:
        self._path, self._writes = series_path(folder, pool), writes
        self._ended, self._users = dict[int, tuple[float, float]](), dict[int, int]()
        self.running = running
        try:
            past = read(self._path)
        except OSError:
            return
        slots = range(past.first, past.first + len(past.need))
        self._ended = dict(zip(slots, zip(past.need, past.total, strict=True), strict=True))
        self._users = dict(zip(slots, past.users, strict=True))

    def see(self, now_s: float, need: int, total: int, user: int = NOBODY) -> None:
        """Note what is needed now, by which user most; a slot that ended is written."""
        slot = int(now_s // SLOT_S)
        before = self.running
        if before is not None and before[0] == slot:
            need, user = max((need, user), (before[1], before[3]))
            total = max(total, before[2])
        elif before is not None and before[0] < slot:
            self._end(before)
            self._write(before)
        self.running = (slot, need, total, user)
        for old in [ended for ended in self._ended if ended <= slot - KEPT_SLOTS]:
            del self._ended[old], self._users[old]

    def series(self) -> RecordedDemand:
        """Return the slots up to now."""
        slots, users = dict(self._ended), dict(self._users)
        if self.running is not None:
            slots[self.running[0]] = (float(self.running[1]), float(self.running[2]))
            users[self.running[0]] = self.running[3]
        return series_of(slots, users)

    def _end(self, slot: OpenSlot) -> None:
        self._ended[slot[0]] = (float(slot[1]), float(slot[2]))
        self._users[slot[0]] = slot[3]

    def _write(self, ended: OpenSlot) -> None:
        """A loop must not fail for its memory: what cannot be written is said."""
        if not self._writes:
            return
        slot, needed, total, user = ended
        whose = "" if user == NOBODY else f",{user}"
        try:
            make_folder(self._path.parent)
            line = f"{slot * SLOT_S},{needed},{total}{whose}\n".encode()
            with os.fdopen(appendable(self._path, mode=0o640), "ab") as stream:
                stream.write(newline_if_torn(stream.fileno()) + line)
        except OSError as error:
            log.warning("%s: demand is not recorded: %s", self._path, error.strerror or error)
