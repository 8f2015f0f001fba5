"""A child of the service: restarted when it dies, ended with its parent.

The child's standard input tells it two things: a byte asks for the settings to be read again, and
its end is that of the server, however that came. Every child ends then.
"""

import logging
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 10.0  # nodes wait up to 30 s more: records come in a minute
END_WAIT_S = 10.0
log = logging.getLogger(__name__)


class ChildProcess(threading.Thread):
    """Runs `python -m MODULE` again and again."""

    def __init__(self, name: str, module: str, config: Path | None) -> None:
        super().__init__(name=name, daemon=True)
        self._command = [sys.executable, "-P", "-m", module]
        if config is not None:
            self._command.append(str(config))
        self._stopping = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """Start, wait, and start again ever more slowly while it keeps dying."""
        wait_s = FIRST_WAIT_S
        while not self._stopping.is_set():
            began_s = time.monotonic()
            lived_s = self._lived()
            if time.monotonic() - began_s > LONGEST_WAIT_S:
                wait_s = FIRST_WAIT_S  # it worked; what ended it is not what ended it before
            if self._stopping.wait(wait_s if lived_s else 0):
                return
            what = lived_s or "ended with status 0"
            log.warning("the %s %s and is started again", self.name.replace("_", " "), what)
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)

    def _lived(self) -> str:
        """Start it and wait for its end; what went wrong with it, if anything."""
        try:
            self._child = self._spawn()
        except OSError as error:
            return f"could not be started ({error.strerror})"
        status = self._child.wait()
        return f"ended with status {status}" if status else ""

    def _spawn(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(self._command, stdin=subprocess.PIPE)

    def reload_settings(self) -> None:
        """Have the child read its settings again; one that starts just now does so anyway."""
        child = self._child
        if child is not None and child.stdin is not None:
            with suppress(OSError, ValueError):  # it died, or its pipe is being closed
                child.stdin.write(b"\n")
                child.stdin.flush()

    def _hang_up(self) -> None:
        """Close its input."""
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()

    def stop(self) -> None:
        """Close its input, and end it where that is not enough."""
        self._stopping.set()
        self._hang_up()
        child = self._child
        if child is None:
            return
        try:
            child.wait(END_WAIT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


class HistoryWriterProcess(ChildProcess):
    """The only writer of the history."""

    def __init__(self, config: Path | None) -> None:
        super().__init__("history_writer", "slurm_ext.advisor.history_writer.writer", config)
