"""Starts `dlqueue train` as a patient child when enough new outcomes came in."""

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

from slurm_ext.core.settings.document import Settings
from slurm_ext.history.store.log_fold import fold_log
from slurm_ext.history.store.store import History

NICE = 10  # behind the history writer too
END_WAIT_S = 5.0  # the server waits ten seconds for the history writer's own end
PAUSE_S = 60.0  # between two starts, however fast outcomes come
log = logging.getLogger(__name__)


class Retrainer:
    """Counts new outcomes; the history writer adds to `outcomes` and sets `after`."""

    def __init__(self, settings: Settings, config: Path | None) -> None:
        self.outcomes = 0
        self.after = settings["advisor.retrain_after"]
        self._state_dir = settings.state_dir
        self._command = [sys.executable, "-P", "-m", "slurm_ext.cli", "train"]
        if config is not None:
            self._command += ["--config", str(config)]
        self._child: subprocess.Popen[bytes] | None = None
        self._started_s = float("-inf")

    def look(self, history: History, _: float) -> None:
        """Collect a training that ended; start one that is due. Raises OSError.

        Before it reads, nobody else does for long: the history's log is folded.
        """
        if self._child is not None and self._child.poll() is not None:
            log.info("training ended with status %d; see train.log", self._child.returncode)
            self._child = None
        rested = time.monotonic() - self._started_s >= PAUSE_S
        if self._child is None and self.outcomes >= self.after and rested:
            fold_log(history)
            self._start()

    def stop(self) -> None:
        """End a training that is still running; after the next start it begins from scratch."""
        if self._child is not None and self._child.poll() is None:
            self._child.terminate()
            try:
                self._child.wait(END_WAIT_S)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()

    def _start(self) -> None:
        self._started_s = time.monotonic()
        with (self._state_dir / "train.log").open("wb") as log:
            self._child = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.outcomes = 0  # only now: where it could not be started, it is due again after a rest
        os.setpriority(os.PRIO_PROCESS, self._child.pid, NICE)
