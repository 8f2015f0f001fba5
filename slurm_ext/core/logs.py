"""Logging of daemons: text lines or one JSON object a line. A slow reader never delays them."""

import atexit
import json
import logging
import logging.handlers
import os
import queue
import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

MOST_WAITING = 10_000  # records in the queue; more are dropped and counted
END_S = 2.0  # for the records that are left at exit
DECISIONS = "dlqueue.decisions"
_PLAIN = frozenset(vars(logging.makeLogRecord({})))


class JsonLines(logging.Formatter):
    """One object a line: time (UTC), level, logger, message, and the fields of `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; values that JSON does not know become text."""
        body: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        body |= {k: v for k, v in vars(record).items() if k not in _PLAIN and k not in body}
        if record.exc_info:
            body["exception"] = self.formatException(record.exc_info)
        return json.dumps(body, default=str)


class _Waiting(logging.handlers.QueueHandler):
    """Hands records to another thread: a reader that hangs must not delay an answer."""

    def __init__(self, waiting: "queue.Queue[Any]") -> None:
        super().__init__(waiting)
        self.dropped = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Return it unchanged: it goes to a thread, not to a process."""
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queue it, or count it where the queue is full."""
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1


class _Written(logging.handlers.QueueListener):
    """Writes to standard error without a handler: at exit, logging waits for handlers' locks."""

    def handle(self, record: logging.LogRecord) -> None:
        """Write one line, or none where standard error is closed."""
        line = _FORMAT.format(record).encode("utf-8", "backslashreplace") + b"\n"
        with suppress(OSError):
            while line:
                line = line[os.write(_ERROR, line) :]


_FORMAT, _ERROR = JsonLines(), 2


def _end(listener: logging.handlers.QueueListener) -> None:
    """Write the records that are left, for END_S at most."""
    last = threading.Thread(target=listener.stop, daemon=True)
    last.start()
    last.join(END_S)


def set_up(log_format: str) -> None:
    """Log to standard error in the format of the setting `log.format`."""
    if log_format != "json":
        logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
        logging.getLogger(DECISIONS).setLevel(logging.WARNING)  # they are in the journal
        return
    waiting: queue.Queue[Any] = queue.Queue(MOST_WAITING)
    listener = _Written(waiting)
    listener.start()
    atexit.register(_end, listener)
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    root.addHandler(_Waiting(waiting))
