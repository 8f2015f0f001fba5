"""The thread that reads every partition's rules; the answering thread never waits for Slurm."""

import logging
import threading

from slurm_ext.advisor.limits.rules import client_of, read_rules
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.core.errors import SlurmError

EVERY_S = 60.0
RETRY_S = 2.0  # the advisor usually starts before slurmctld does
log = logging.getLogger(__name__)


class RulesReader(threading.Thread):
    """Keeps the advisor's rules up to date; old ones stay where Slurm does not answer."""

    def __init__(self, advisor: Advisor) -> None:
        super().__init__(name="rules", daemon=True)
        self._advisor = advisor
        self._stop_asked = threading.Event()

    def run(self) -> None:
        """Read until stopped; each failure is logged once."""
        said = ""
        pause_s = 0.0
        while not self._stop_asked.wait(pause_s):
            try:
                self._advisor.rules = read_rules(client_of(self._advisor.settings))
                said, pause_s = "", EVERY_S
            except Exception as error:  # also a fault of ours: limits would never be read again
                if repr(error) != said:
                    fault = not isinstance(error, SlurmError)
                    log.warning("limits stay as they were: %s", error, exc_info=fault)
                said, pause_s = repr(error), RETRY_S

    def stop(self) -> None:
        """End soon."""
        self._stop_asked.set()
