"""How daemons log: lines for people, or a JSON object a line; never waiting for who reads them."""

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

MOST_WAITING = 10_000  # records that nobody has read yet; more are dropped, and counted
END_S = 2.0  # for what still waits at the end
DECISIONS = "dlqueue.decisions"
_PLAIN = frozenset(vars(logging.makeLogRecord({})))


class JsonLines(logging.Formatter):
    """One object a line: time (UTC), level, logger, message, and whatever `extra` held."""

    def format(self, record: logging.LogRecord) -> str:
        """The line; what JSON does not know becomes text."""
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        told |= {k: v for k, v in vars(record).items() if k not in _PLAIN and k not in told}
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told, default=str)


class _Waiting(logging.handlers.QueueHandler):
    """Hands records to another thread: a reader that stands still must not hold up an answer."""

    def __init__(self, waiting: "queue.Queue[Any]") -> None:
        super().__init__(waiting)
        self.dropped = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """As it is: it goes to a thread, not to a process."""
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        """Keep it, or count it where too many wait."""
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1


class _Written(logging.handlers.QueueListener):
    """Writes to standard error by itself: at the end logging waits for the locks of handlers."""

    def handle(self, record: logging.LogRecord) -> None:
        """One line, or none where standard error is gone."""
        line = _FORM.format(record).encode("utf-8", "backslashreplace") + b"\n"
        with suppress(OSError):
            while line:
                line = line[os.write(_ERROR, line) :]


_FORM, _ERROR = JsonLines(), 2


def _end(listener: logging.handlers.QueueListener) -> None:
    """Write what waits, unless nobody takes it."""
    last = threading.Thread(target=listener.stop, daemon=True)
    last.start()
    last.join(END_S)


def set_up(form: str) -> None:
    """Log from now on in the form that `log.format` names, to standard error."""
    if form != "json":
        logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
        logging.getLogger(DECISIONS).setLevel(logging.WARNING)  # they are in the ledger
        return
    waiting: queue.Queue[Any] = queue.Queue(MOST_WAITING)
    listener = _Written(waiting)
    listener.start()
    atexit.register(_end, listener)
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    root.addHandler(_Waiting(waiting))
