"""The slurm.conf of this machine, by which Slurm's commands find their cluster at once."""

import os
from pathlib import Path

from slurm_ext.core.settings.document import Settings

USUAL = Path("/etc/slurm/slurm.conf")


def slurm_conf(settings: Settings) -> Path | None:
    """The file that the settings, the environment or custom name; None where there is none.

    Without one, Slurm's commands look for a cluster in the network, for ten seconds.
    """
    named = settings["paths.slurm_conf"] or os.environ.get("SLURM_CONF")
    path = Path(named) if named else USUAL
    return path if path.exists() else None
