"""The slurm.conf of this machine, by which Slurm's commands find their cluster at once."""

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from slurm_ext.core.settings.document import Settings
from slurm_ext.core.settings.slurm_place import slurm_place

USUAL = Path("/etc/slurm/slurm.conf")


def slurm_conf(settings: Settings) -> Path | None:
    """The file that the settings, the environment or custom name; None where there is none.

    Without one, Slurm's commands look for a cluster in the network, for ten seconds.
    """
    named = settings["paths.slurm_conf"] or os.environ.get("SLURM_CONF")
    paths = iter([Path(named)]) if named else chain([USUAL], _beside(settings))
    return next((path for path in paths if path.exists()), None)


def _beside(settings: Settings) -> Iterator[Path]:
    """Yield slurm.conf of a Slurm with a prefix: <prefix>/etc."""
    place = slurm_place(settings)
    if place is not None:
        yield Path(place.folder).parent / "etc" / "slurm.conf"
