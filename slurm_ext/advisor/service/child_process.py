"""The history writer as a child: restarted when it dies, ended with its parent.

The child's standard input is a pipe: a byte in it asks for the settings to be read again. It ends
when the server does, however the server ends, and so does the history writer.
"""

import logging
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 60.0
END_WAIT_S = 10.0
log = logging.getLogger(__name__)


class HistoryWriterProcess(threading.Thread):
    """Runs `python -m slurm_ext.advisor.history_writer.writer` again and again."""

    def __init__(self, config: Path | None) -> None:
        super().__init__(name="history_writer", daemon=True)
        self._command = [sys.executable, "-P", "-m", "slurm_ext.advisor.history_writer.writer"]
        if config is not None:
            self._command.append(str(config))
        self._stopping = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """Start, wait, and start again ever more slowly while it keeps dying."""
        wait_s = FIRST_WAIT_S
        while not self._stopping.is_set():
            began_s = time.monotonic()
            said = self._lived()
            if time.monotonic() - began_s > LONGEST_WAIT_S:
                wait_s = FIRST_WAIT_S  # it worked; what ended it is not what ended it before
            if self._stopping.wait(wait_s if said else 0):
                return
            log.warning("the history writer %s and is started again", said or "ended with status 0")
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)

    def _lived(self) -> str:
        """Start it and wait for its end; what went wrong with it, if anything."""
        try:
            self._child = subprocess.Popen(self._command, stdin=subprocess.PIPE)
        except OSError as error:
            return f"could not be started ({error.strerror})"
        status = self._child.wait()
        return f"ended with status {status}" if status else ""

    def reload_settings(self) -> None:
        """Have the child read its settings again; one that starts just now does so anyway."""
        child = self._child
        if child is not None and child.stdin is not None:
            with suppress(OSError, ValueError):  # it died, or its pipe is being closed
                child.stdin.write(b"\n")
                child.stdin.flush()

    def stop(self) -> None:
        """Close its input, and end it where that is not enough."""
        self._stopping.set()
        child = self._child
        if child is None:
            return
        if child.stdin is not None:
            child.stdin.close()
        try:
            child.wait(END_WAIT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
