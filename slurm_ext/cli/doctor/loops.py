"""Checks of `doctor`: a loop that is turned on has to run."""

import os
import time
from collections.abc import Iterator

from slurm_ext.cli.control.loops import LOOPS
from slurm_ext.cli.doctor.finding import OK, WARN, Finding, judged
from slurm_ext.core.errors import InputError
from slurm_ext.core.settings.document import Settings

LATE_S = 900.0  # longer than any loop waits, after errors of Slurm too


def loops(settings: Settings) -> Iterator[Finding]:
    """One finding for each loop that is on; nothing where there is no advisor's folder."""
    if settings.state_dir.is_dir():
        for kind in LOOPS:
            if settings[f"{kind}.mode"] != "off":
                yield _loop(kind, settings)


def _loop(kind: str, settings: Settings) -> Finding:
    from slurm_ext.control.loops.loop_state import cluster_state

    name, state = f"{kind} loop", cluster_state(settings.state_dir, kind, writes=False)
    if state.path.exists() and not os.access(state.path, os.R_OK | os.X_OK):
        return Finding(name, OK, "only root and SlurmUser can see")
    try:
        status = state.read_status("at_s")
        looked_s = float(status["at_s"]) if status else 0.0
    except (InputError, TypeError, ValueError) as error:
        return Finding(name, WARN, str(error), "see the message")
    start = f"systemctl enable --now dlqueue-{kind} (site_config/systemd)"
    if status is None:
        return Finding(name, WARN, f"{kind}.mode is {settings[f'{kind}.mode']}: nobody runs", start)
    ago_s = max(0.0, time.time() - looked_s)
    last = f"{status.get('mode')}, looked {ago_s:.0f} s ago"
    return judged(name, ago_s < LATE_S, last, start)
