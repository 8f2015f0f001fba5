"""Signals that a daemon waits for: read as bytes, and handed back at the end."""

import os
import select
import signal
from contextlib import suppress

import pytest

from slurm_ext.core.signals import signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_makes_the_descriptor_readable(number: signal.Signals) -> None:
    """End signals always, others where they are named; each is its number in a byte."""
    with signals(signal.SIGHUP) as reading:
        assert select.select([reading], [], [], 0)[0] == []
        os.kill(os.getpid(), number)
        assert select.select([reading], [], [], 5)[0] == [reading]
        assert os.read(reading, 100) == bytes([number])
        with pytest.raises(BlockingIOError):
            os.read(reading, 1)


def test_what_was_there_before_is_there_afterwards() -> None:
    """Handlers, the wake-up descriptor, and no open descriptor more."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    usual = signal.getsignal(signal.SIGHUP)
    with signals() as reading:
        assert signal.getsignal(signal.SIGHUP) is usual
        writing = signal.set_wakeup_fd(-1)
        assert writing != -1
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    assert {number: signal.getsignal(number) for number in handlers} == handlers
    assert signal.set_wakeup_fd(-1) == -1
    for closed in (reading, writing):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(closed)


def test_more_signals_than_a_pipe_holds_block_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    """The pipe is full after 64 KiB: the next ones are dropped, in silence."""
    with signals() as reading:
        writing = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        with suppress(BlockingIOError):
            while True:
                os.write(writing, b"x" * 4096)
        os.kill(os.getpid(), signal.SIGTERM)
        assert os.read(reading, 10) == b"x" * 10
    assert capfd.readouterr().err == ""
