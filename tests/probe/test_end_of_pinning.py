"""Workers that are killed in the middle of a message do not hold the training."""

import threading
from typing import Any

import pytest

from slurm_ext.probe import lazy_workers


class Queue:
    """Notes what is asked of torch's queue; a reader that gets what is put ends."""

    def __init__(self, read: threading.Event) -> None:
        self.read = read
        self.left = False

    def put(self, data: Any) -> None:
        """Wake the reader, if it can be."""
        del data
        self.read.set()

    def cancel_join_thread(self) -> None:
        """Python's end does not wait for what was put."""
        self.left = True


class Workers:
    """Stands in for torch's iterator, whose thread waits for the rest of a message."""

    def __init__(self, rest: threading.Event, read: threading.Event) -> None:
        self._pin_memory_thread_done_event = threading.Event()
        self._worker_result_queue = Queue(read)
        self._pin_memory_thread = threading.Thread(target=rest.wait, daemon=True)
        self._pin_memory_thread.start()


def test_a_thread_that_waits_for_a_rest_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch would wait for it without end: what it asks for the thread is gone."""
    monkeypatch.setattr(lazy_workers, "_PINNING_S", 0.05)
    rest = threading.Event()
    workers = Workers(rest, threading.Event())
    thread = workers._pin_memory_thread
    lazy_workers._end_pinning(workers)
    assert not hasattr(workers, "_pin_memory_thread")
    assert workers._pin_memory_thread_done_event.is_set()
    assert workers._worker_result_queue.left
    rest.set()
    thread.join()


def test_a_thread_that_ends_is_torchs_to_close() -> None:
    """One that is woken ends, and torch goes on as ever."""
    woken = threading.Event()
    workers = Workers(woken, woken)
    lazy_workers._end_pinning(workers)
    assert not workers._pin_memory_thread.is_alive()
    assert not workers._worker_result_queue.left


def test_workers_without_pinned_memory_have_no_such_thread() -> None:
    """There is nothing to end."""
    lazy_workers._end_pinning(object())
