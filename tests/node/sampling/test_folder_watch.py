"""A run folder is looked at when it changes, and the sooner again the faster it grows."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_ext.node.sampling import folder_watch
from slurm_ext.node.sampling.folder_watch import LONGEST_S, SHORTEST_S, FolderWatch, pause_s
from slurm_ext.node.sampling.run_folder import RunFolder

LONG_S = 30.0  # until a test fails


@pytest.fixture(autouse=True)
def _signals_wait() -> Iterator[None]:
    """As in a sampler."""
    signals = {signal.SIGTERM, signal.SIGINT, folder_watch.CHANGED}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    yield
    while signal.sigtimedwait(signals, 0):
        pass
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Counted(RunFolder):
    """A run folder that counts looks, and ends the wait at the last one."""

    def __init__(self, path: Path, most: int) -> None:
        super().__init__(str(path), os.getuid())
        self.looks, self.most = 0, most

    def look(self) -> None:
        """Look."""
        super().look()
        self.looks += 1
        if self.looks == self.most:
            signal.raise_signal(signal.SIGTERM)


def test_a_folder_that_grows_fast_is_looked_at_soon() -> None:
    """In half of the time in which it would be full; never without a pause."""
    assert pause_s(0.1, 0.0, 1.0, 0.0) == LONGEST_S
    assert pause_s(0.5, 0.25, 0.1, 0.0) == pytest.approx(0.1)
    assert pause_s(0.9, 0.8, 0.01, 0.0) == SHORTEST_S
    assert pause_s(0.5, 0.001, 0.1, 0.0) == LONGEST_S
    assert pause_s(float("inf"), float("inf"), 0.1, 0.0) == LONGEST_S


def test_looks_cost_at_most_a_share_of_a_core() -> None:
    """Whoever keeps a folder nearly full, and changes it all the time."""
    assert pause_s(0.999, 0.0002, 0.001, 0.01) == pytest.approx(0.01 / folder_watch.MOST_OF_CORE)


def test_a_change_is_seen_within_the_wait(tmp_path: Path) -> None:
    """The next sample would be half a minute away."""
    folder = Counted(tmp_path, 2)
    watch = FolderWatch(folder)
    watch.look()
    threading.Timer(0.05, (tmp_path / "new").touch).start()
    assert watch.wait(LONG_S)
    assert (folder.looks, folder.share > 0) == (2, True)


@pytest.mark.parametrize("reason", ["deaf", "folders"])
def test_what_the_kernel_does_not_signal_is_looked_for(tmp_path: Path, reason: str) -> None:
    """Folders below, and a kernel without dnotify."""
    if reason == "folders":
        (tmp_path / "below").mkdir()
    folder = Counted(tmp_path, 3)
    watch = FolderWatch(folder)
    watch.hears = watch.hears and reason != "deaf"
    watch.look()
    assert watch.wait(LONG_S)
    assert folder.looks == 3


def test_a_quiet_folder_costs_nothing(tmp_path: Path) -> None:
    """No look in a whole wait; a signal to end ends it."""
    folder = Counted(tmp_path, 0)
    watch = FolderWatch(folder)
    watch.look()
    assert not watch.wait(2 * LONGEST_S)
    assert folder.looks == 1
    signal.raise_signal(signal.SIGTERM)
    assert watch.wait(LONG_S)
    assert FolderWatch(RunFolder(str(tmp_path / "none"), 1)).hears is False
