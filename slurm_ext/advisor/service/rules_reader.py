"""The thread that reads every partition's rules; the answering thread never waits for Slurm."""

import logging
import shutil
import threading

from slurm_ext.advisor.limits.rules import client_of, read_rules
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.core.errors import SlurmError
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.settings.slurm_place import slurm_bin

EVERY_S = 60.0
RETRY_S = 0.5  # the advisor usually starts before slurmctld does
FIRST_S = 2.0  # a slurmctld that is there answers in milliseconds; without one nobody submits
log = logging.getLogger(__name__)


class RulesReader(threading.Thread):
    """Keeps the advisor's rules up to date; old ones stay where Slurm does not answer."""

    def __init__(self, advisor: Advisor) -> None:
        super().__init__(name="rules", daemon=True)
        self._advisor = advisor
        advisor.knows_limits = not _is_there(advisor.settings)
        self._stop_asked, self._looked = threading.Event(), threading.Event()
        self._said = ""

    def run(self) -> None:
        """Read until stopped."""
        pause_s = 0.0
        while not self._stop_asked.wait(pause_s):
            pause_s = EVERY_S if self.look() else RETRY_S
            self._looked.set()

    def wait_for_first(self) -> None:
        """Wait for the end of the first reading, for FIRST_S at most.

        Before it no limit of a partition is known, such as the memory that a job gets.
        """
        self._looked.wait(FIRST_S)

    def look(self) -> bool:
        """Read once; each failure is logged once, and False."""
        try:
            self._advisor.rules = read_rules(client_of(self._advisor.settings))
        except Exception as error:  # also a fault of ours: limits would never be read again
            if repr(error) != self._said:
                fault = not isinstance(error, SlurmError)
                log.warning("limits stay as they were: %s", error, exc_info=fault)
            self._said = repr(error)
            return False
        self._said, self._advisor.knows_limits = "", True
        return True

    def stop(self) -> None:
        """End soon."""
        self._stop_asked.set()


def _is_there(settings: Settings) -> bool:
    """True if this machine has Slurm's commands: only then are limits to come."""
    return shutil.which("scontrol", path=slurm_bin(settings) or None) is not None
