"""Workers that the program did not ask for are silent where it asks for stacks."""

from tests.probe.conftest import ROOT, Python

SIGNALLED = f"""
import faulthandler, os, signal, sys
sys.path.insert(0, {str(ROOT)!r})
from slurm_ext.probe.workers.signals import leave_to_the_training
faulthandler.register(signal.SIGUSR1)
leave_to_the_training(0)
os.kill(os.getpid(), signal.SIGUSR1)
print("went on")
"""


def test_stacks_that_the_program_asks_for_are_its_own(python: Python) -> None:
    """Slurm's warning goes to all processes of a step; a worker that nobody knows of is silent."""
    done = python(["-c", SIGNALLED], {})
    assert (done.returncode, done.stdout, done.stderr) == (0, "went on\n", "")
