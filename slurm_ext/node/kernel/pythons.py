"""Python processes of a job that run without the probe, as /proc tells it.

Where a job replaces PYTHONPATH, empties its environment or starts `python -I`, nothing in the
process can say so. Of each process's own texts only one bit is used; how many are read is bounded.
"""

from __future__ import annotations

import os

from slurm_ext.node.kernel.processes import PROC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from slurm_ext.node.kernel.processes import JobProcess

LEAST_AGE_S = 2.0  # hooks, wrappers and a fork before its exec are gone by then, or another program
MAX_LOOKS = 64  # processes at one time
MAX_KNOWN = 4096
_ISOLATED = frozenset(b"IES")
_WITH_VALUE = frozenset(b"WX")
_TICKS = os.sysconf("SC_CLK_TCK")


class Pythons:
    """Counts a job's Python processes without the probe; `site` is the probe's folder."""

    def __init__(self, site: str, counted: int | None = None, proc: str = PROC) -> None:
        self._entry, self._proc = os.fsencode(site), proc
        self._known: set[tuple[int, int]] = set()  # pid and start: judged, each once
        self.unprobed = counted  # None: no Python was seen; 0: all had the probe

    def look(self, members: Mapping[int, JobProcess], uptime_s: float) -> None:
        """Judge the processes that have lived for a while; one that is no Python may become one."""
        looks = 0
        for pid, process in members.items():
            who = (pid, process.started)
            if who in self._known or uptime_s - process.started / _TICKS < LEAST_AGE_S:
                continue
            looks += 1
            if looks > MAX_LOOKS or len(self._known) >= MAX_KNOWN:
                return
            self._judge(who)

    def _judge(self, who: tuple[int, int]) -> None:
        try:
            program = os.path.basename(os.readlink(f"{self._proc}/{who[0]}/exe"))
            if not program.startswith(("python", "pypy")):
                return
            without = self._is_without(who[0])
        except OSError:
            return
        self._known.add(who)
        self.unprobed = (self.unprobed or 0) + without

    def _is_without(self, pid: int) -> bool:
        env = b"\0" + _read(f"{self._proc}/{pid}/environ")
        if b"\0DLQUEUE=off\0" in env:  # as its user wants it
            return False
        path = env.partition(b"\0PYTHONPATH=")[2].partition(b"\0")[0]
        return self._entry not in path.split(b":") or isolated(_read(f"{self._proc}/{pid}/cmdline"))


def isolated(cmdline: bytes) -> bool:
    """True if Python was started without PYTHONPATH or without its site module (-I, -E, -S)."""
    words = iter(cmdline.split(b"\0")[1:])
    for word in words:
        if word[:1] != b"-" or word[:2] == b"--" or word == b"-":
            return False
        for place, option in enumerate(word[1:], 2):
            if option in _ISOLATED:
                return True
            if option in b"cm":
                return False
            if option in _WITH_VALUE:
                if place == len(word):
                    next(words, None)
                break
    return False


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(1 << 20)
