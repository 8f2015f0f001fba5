"""Logs of daemons: objects that hold what they were given, and no waiting for a reader."""

import atexit
import json
import logging
import os
import queue
import subprocess
import sys
from typing import Any

import pytest

from slurm_ext.core import logs
from slurm_ext.core.logs import JsonLines

FULL = """
import logging, sys
from slurm_ext.core import logs
logs.MOST_WAITING = 10
logs.END_S = 0.1
logs.set_up("json")
for number in range(2000):
    logging.info("x" * 100)
print("done", flush=True)
"""


def line(record: logging.LogRecord) -> dict[str, object]:
    """A record as it is written."""
    told: dict[str, object] = json.loads(JsonLines().format(record))
    return told


def test_a_line_is_an_object_with_what_was_given() -> None:
    """Time in UTC, level, logger, message, and the caller's own fields; odd values as text."""
    record = logging.makeLogRecord(
        {"name": "a", "levelname": "INFO", "msg": "%s jobs\n", "args": (3,), "created": 0.25}
    )
    record.decision, record.odd = "d1-0", {1}
    assert line(record) == {
        "time": "1970-01-01T00:00:00.250+00:00",
        "level": "info",
        "logger": "a",
        "message": "3 jobs\n",
        "decision": "d1-0",
        "odd": "{1}",
    }
    assert "\n" not in JsonLines().format(record)


def test_an_exception_is_a_field() -> None:
    """The traceback stays within its line."""
    try:
        raise ValueError("no")
    except ValueError:
        record = logging.makeLogRecord({"exc_info": sys.exc_info()})
    assert "ValueError: no" in str(line(record)["exception"])
    assert "\n" not in JsonLines().format(record)


def test_a_reader_that_stands_still_holds_up_nobody() -> None:
    """Lines are dropped, the program goes on, and it ends."""
    reading, writing = os.pipe()  # nobody reads: it is full after 64 KiB
    try:
        done = subprocess.run(
            [sys.executable, "-c", FULL],
            stdout=subprocess.PIPE,
            stderr=writing,
            timeout=100,
        )
    finally:
        os.close(writing)
        os.close(reading)
    assert (done.returncode, done.stdout) == (0, b"done\n")


WORDS = """
import logging
from slurm_ext.core import logs
logs.set_up({log_format!r})
logging.getLogger("room").info("seen %d", 1)
logging.getLogger("room").debug("unseen")
logging.getLogger(logs.DECISIONS).info("decided", extra={{"decision": "d1"}})
logging.getLogger(logs.DECISIONS).warning("odd \\udc80")
"""


@pytest.mark.parametrize(
    ("log_format", "lines"),
    [
        ("text", ["room: seen 1", "dlqueue.decisions: odd \\udc80"]),
        ("json", ["seen 1", "decided", "odd \udc80"]),
    ],
)
def test_each_format_has_its_lines(log_format: str, lines: list[str]) -> None:
    """People are spared the decisions, which are in the journal; what waits is written at exit."""
    code = WORDS.format(log_format=log_format)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    printed = done.stderr.splitlines()
    if log_format == "json":
        assert json.loads(printed[1])["decision"] == "d1"
        printed = [json.loads(text)["message"] for text in printed]
    assert printed == lines
    assert done.stdout == ""


def test_a_closed_standard_error_stops_nobody() -> None:
    """A service manager that went away."""
    code = WORDS.format(log_format="json") + "print('on')"
    command = f'exec {sys.executable} -c "$1" 2>&-'
    done = subprocess.run(
        ["/bin/sh", "-c", command, "sh", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "on\n"


def test_a_callers_field_does_not_replace_ours() -> None:
    """`extra` may hold any names."""
    record = logging.makeLogRecord({"msg": "m", "name": "n", "levelname": "INFO"})
    record.time, record.level = "never", "loud"
    assert (line(record)["level"], line(record)["time"]) != ("loud", "never")
    assert line(record)["level"] == "info"
    assert str(line(record)["time"]).endswith("+00:00")


def test_what_is_over_the_queues_size_is_counted() -> None:
    """Each dropped record once; those that fit stay as they are, in order."""
    waiting: queue.Queue[Any] = queue.Queue(2)
    handler = logs._Waiting(waiting)
    records = [logging.makeLogRecord({"msg": "%d", "args": (number,)}) for number in range(5)]
    for record in records:
        handler.emit(record)
    assert handler.dropped == 3
    assert [waiting.get_nowait() for _ in range(2)] == records[:2]
    assert records[0].args == (0,)  # formatted by the thread that writes


@pytest.mark.parametrize("limit", [1, 7, 10_000])
def test_a_line_is_written_whole(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """However little standard error takes at a time; any text, with one newline at the end."""
    written = bytearray()

    def write(file: int, data: bytes) -> int:
        assert file == 2
        written.extend(data[:limit])
        return len(data[:limit])

    monkeypatch.setattr(os, "write", write)
    logs._Written(queue.Queue()).handle(logging.makeLogRecord({"msg": "a\udc80"}))
    assert written.endswith(b"}\n")
    assert json.loads(written)["message"] == "a\udc80"


def test_at_exit_the_queue_is_emptied_within_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is written, unless nobody takes it for END_S."""
    seen: list[str] = []
    monkeypatch.setattr(logs._Written, "handle", lambda _, record: seen.append(record.getMessage()))
    waiting: queue.Queue[Any] = queue.Queue()
    listener = logs._Written(waiting)
    listener.start()
    for number in range(100):
        waiting.put(logging.makeLogRecord({"msg": str(number)}))
    logs._end(listener)
    assert seen == [str(number) for number in range(100)]


def test_json_logs_go_through_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """One handler at the root, from INFO on; its end is registered."""
    registered: list[tuple[Any, ...]] = []
    root = logging.getLogger("root of this test")
    monkeypatch.setattr(logging, "getLogger", lambda name=None: root)
    monkeypatch.setattr(atexit, "register", lambda *call: registered.append(call))
    logs.set_up("json")
    ((end, listener),) = registered
    listener.stop()
    assert end is logs._end
    assert isinstance(listener, logs._Written)
    assert root.level == logging.INFO
    (handler,) = root.handlers
    assert isinstance(handler, logs._Waiting)
    assert handler.queue is listener.queue
    assert isinstance(listener.queue, queue.Queue)
    assert listener.queue.maxsize == logs.MOST_WAITING
