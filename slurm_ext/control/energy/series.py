"""The demand of one pool as the loop sees it: what is remembered, and what is recorded."""

import logging
import os
from pathlib import Path

from slurm_ext.core.ownership import appendable, make_folder, newline_if_torn
from slurm_ext.model.arrays import Array
from slurm_ext.model.demand.model import DAY, SLOT_S, WEEK
from slurm_ext.model.demand.series import filled, read, series_path

KEPT_SLOTS = WEEK + DAY  # as far back as features look, and a day
log = logging.getLogger("dlqueue.energy")

OpenSlot = tuple[int, int, int]  # slot, need, total


class DemandRecorder:
    """A pool's series; `writes` is False for a look that leaves no trace.

    `running` is the slot that has not ended, as an earlier process left it.
    """

    def __init__(self, folder: Path, pool: str, running: OpenSlot | None, *, writes: bool) -> None:
        self._path, self._writes = series_path(folder, pool), writes
        self._ended: dict[int, tuple[float, float]] = {}
        self.running = running
        try:
            first, needed, total = read(self._path)
        except OSError:
            return
        self._ended = {first + at: both for at, both in enumerate(zip(needed, total, strict=True))}

    def see(self, now_s: float, need: int, total: int) -> None:
        """Note what is needed now; a slot that ended is written."""
        slot = int(now_s // SLOT_S)
        before = self.running
        if before is not None and before[0] == slot:
            need, total = max(need, before[1]), max(total, before[2])
        elif before is not None and before[0] < slot:
            self._ended[before[0]] = (float(before[1]), float(before[2]))
            self._write(before)
        self.running = (slot, need, total)
        for old in [ended for ended in self._ended if ended <= slot - KEPT_SLOTS]:
            del self._ended[old]

    def series(self) -> tuple[int, Array]:
        """First slot, and need by slot up to now."""
        slots = dict(self._ended)
        if self.running is not None:
            slots[self.running[0]] = (float(self.running[1]), float(self.running[2]))
        first, needed, _ = filled(slots)
        return first, needed

    def _write(self, ended: OpenSlot) -> None:
        """A loop must not fail for its memory: what cannot be written is said."""
        if not self._writes:
            return
        slot, needed, total = ended
        try:
            make_folder(self._path.parent)
            line = f"{slot * SLOT_S},{needed},{total}\n".encode()
            with os.fdopen(appendable(self._path, mode=0o640), "ab") as stream:
                stream.write(newline_if_torn(stream.fileno()) + line)
        except OSError as error:
            log.warning("%s: demand is not recorded: %s", self._path, error.strerror or error)
