"""Report faults, a line each, to the system log and a bounded file; never raises."""

from __future__ import annotations

import os
import time

MAX_CHARS = 500
MAX_BYTES = 256 * 1024
NAME = "hooks.log"
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
folder = ""  # where hooks.log is: the spool, once the configuration is read


def report(text: str) -> None:
    """Report `text`, and add it to hooks.log, which is emptied when it has grown."""
    text = printable(text)
    try:
        import syslog

        syslog.openlog("dlqueue", syslog.LOG_PID, syslog.LOG_DAEMON)
        syslog.syslog(syslog.LOG_WARNING, text)
    except (ImportError, OSError, ValueError):
        pass
    if folder:
        _append(os.path.join(folder, NAME), text)


def printable(text: str) -> str:
    """`text` in one line of printable ASCII, at most MAX_CHARS long."""
    escaped = text[:MAX_CHARS].encode("unicode_escape", "replace").decode("ascii")
    return escaped[:MAX_CHARS]


def _append(path: str, text: str) -> None:
    try:
        fd = os.open(path, _APPEND, 0o600)
    except OSError:
        return
    try:
        if os.fstat(fd).st_size > MAX_BYTES:
            os.ftruncate(fd, 0)
        os.write(fd, f"{time.time():.3f} {os.getpid()} {text}\n".encode())
    except OSError:
        pass
    finally:
        os.close(fd)
