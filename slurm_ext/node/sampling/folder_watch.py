"""Look at a run folder as soon as it changes, and the sooner again the faster it grows.

Samples of a long job are half a minute apart, in which a job could fill the node's disk. The kernel
signals every new or written file in the folder (dnotify), so that a folder in which nothing happens
costs nothing. Folders below it send no signal, nor does a kernel without dnotify: such a one is
looked at every LONGEST_S. What a job can add before it is seen is what it writes in that time.
"""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import threading
import time

from slurm_ext.node.common.files import FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from slurm_ext.node.sampling.run_folder import RunFolder

SHORTEST_S, LONGEST_S = 0.005, 0.25  # between two looks at a folder that changes
CLEARED_S = 0.5  # at most, between two looks at a closed folder that is not empty yet
MOST_OF_CORE = 0.05  # that looks may cost while somebody keeps a folder nearly full
ENDS = (signal.SIGTERM, signal.SIGINT)
CHANGED = signal.SIGURG  # not SIGIO, which ends a process that does not wait for it
_OF_THREAD = struct.Struct("ii")  # fcntl(2): F_SETOWN_EX takes F_OWNER_TID and a thread's id
_F_SETOWN_EX, _F_OWNER_TID = 15, 0
_CHANGES = fcntl.DN_CREATE | fcntl.DN_MODIFY | fcntl.DN_RENAME | fcntl.DN_MULTISHOT


class FolderWatch:
    """A wait between samples; CHANGED must be blocked."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.pause_s, self.looked_s, self.grows = LONGEST_S, 0.0, False
        self.hears = _hears(folder.path)

    def look(self) -> None:
        """Look, and decide how soon again."""
        before, since_s, spent_s = self.folder.share, self.looked_s, self.folder.spent_s
        self.folder.look()
        self.looked_s = time.monotonic()
        grown = self.folder.share - before
        cost_s = self.folder.spent_s - spent_s
        self.grows = grown > 0
        pause = pause_s(self.folder.share, grown, self.looked_s - since_s, cost_s)
        self.pause_s = min(pause, CLEARED_S) if self.folder.is_filled else pause

    def wait(self, wait_s: float) -> bool:
        """Wait, and look meanwhile where there is a reason; True at a signal to end."""
        until_s = time.monotonic() + wait_s
        while True:
            rest_s = self.looked_s + self.pause_s - time.monotonic()
            if _signalled(ENDS, min(rest_s, until_s - time.monotonic())) is not None:
                return True
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return False
            if self._is_quiet():
                heard = _signalled((*ENDS, CHANGED), left_s)
                if heard != CHANGED:
                    return heard is not None
            self.look()

    def _is_quiet(self) -> bool:
        """True if the kernel will signal the next change."""
        busy = self.grows or self.folder.has_folders or self.folder.is_filled
        return self.hears and not busy


def pause_s(share: float, grown: float, since_s: float, cost_s: float) -> float:
    """Seconds until a folder is looked at again that holds this `share` of what it may.

    Half of the time in which it is full if it grows on as it did, within what looks may cost.
    """
    full_s = since_s * (1 - share) / grown if 0 < grown < 1 else 2 * LONGEST_S
    return max(SHORTEST_S, cost_s / MOST_OF_CORE, min(LONGEST_S, full_s / 2))


def _signalled(signals: tuple[int, ...], wait_s: float) -> int | None:
    heard = signal.sigtimedwait(signals, max(0.0, wait_s))
    return None if heard is None else heard.si_signo


def _hears(path: str) -> bool:
    """Have the kernel signal changes in the folder from now on; False where it cannot."""
    try:
        folder = os.open(path, FOLDER)  # open as long as the process lives: it ends the signals
        waits = _OF_THREAD.pack(_F_OWNER_TID, threading.get_native_id())  # another may not block it
        fcntl.fcntl(folder, _F_SETOWN_EX, waits)
        fcntl.fcntl(folder, fcntl.F_SETSIG, CHANGED)
        fcntl.fcntl(folder, fcntl.F_NOTIFY, _CHANGES)
    except OSError:
        return False
    return True
