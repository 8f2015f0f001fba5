"""Programs that end otherwise than by coming to their end: `python -m ...ends NAME`."""

import os
import sys

from torch.utils.data import DataLoader

from .data import Images
from .feeding import Trainer


def fit():
    Trainer().fit(DataLoader(Images(), batch_size=16, shuffle=True), 4).truth.tell()


def os_exit():
    fit()
    sys.stdout.flush()
    os._exit(7)


def exception():
    fit()
    raise RuntimeError("the model cannot be saved")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
