"""Kits that own the loop, the trainer or the `fit`: `python -m ...kits.KIT NAME`."""

import logging
import sys
import warnings

from contrib.bench.foreign.programs import declare

STEP_S = 0.01  # of those steps that last, as on a slower machine


def start(programs):
    """Run the program that the command line names, without the kits' usual notes."""
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    declare()
    programs[sys.argv[1]]()
