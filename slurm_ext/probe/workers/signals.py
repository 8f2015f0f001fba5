"""Signals in workers that the program's author does not know of: its handlers are not for them.

Slurm sends a warning before the time limit, and the end, to each process of a step. A handler that
saves a checkpoint, or requeues the job, runs once as written: in the training process.
"""

from __future__ import annotations

import faulthandler
import signal

_LEFT_TO_THE_TRAINING = ("SIGUSR1", "SIGUSR2", "SIGHUP", "SIGCONT", "SIGINT", "SIGTERM")


def leave_to_the_training(worker_id: int) -> None:
    """Have this worker ignore what the program itself handles; a `worker_init_fn` for torch."""
    del worker_id
    for name in _LEFT_TO_THE_TRAINING:
        number = getattr(signal, name)
        if faulthandler.unregister(number):  # type: ignore[func-returns-value]  # a bool, by its docs
            signal.signal(number, signal.SIG_IGN)
        handler = signal.getsignal(number)
        if callable(handler) and handler is not signal.default_int_handler:
            signal.signal(number, signal.SIG_IGN)
