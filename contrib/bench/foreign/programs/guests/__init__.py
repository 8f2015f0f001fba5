"""Data that remembers, is written to, or belongs to the process: as research code has it."""

import sys
import time

from contrib.bench.foreign.programs.feeding import Trainer

STEP_S = 0.008  # as if an accelerator computed


def fit(loader, after_step=lambda *_: None, epochs=3, trainer=None, end=lambda *_: None):
    """A plain loop that calls `after_step` with each batch, and tells the truth at its end."""
    trainer = trainer or Trainer()
    for epoch in range(epochs):
        with trainer.truth.training():
            for x, y, *more in loader:
                trainer.step(x, y)
                time.sleep(STEP_S)
                after_step(x, y, *more)
        end(trainer, epoch)
    trainer.truth.tell()


def start(programs):
    """Run the program that the command line names."""
    programs[sys.argv[1]]()
