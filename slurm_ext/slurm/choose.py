"""Opens the Slurm client that the settings name."""

from slurm_ext.core.settings.document import Settings
from slurm_ext.core.settings.slurm_place import slurm_bin
from slurm_ext.slurm.client import SlurmClient
from slurm_ext.slurm.commands import CommandClient


def open_client(settings: Settings) -> SlurmClient:
    """Open the client of site.slurm_client. Raises MissingError if its library is missing."""
    where = {"bin_dir": slurm_bin(settings), "slurm_conf": settings["paths.slurm_conf"]}
    if settings["site.slurm_client"] == "pyslurm":
        from slurm_ext.slurm.pyslurm_client import open_pyslurm

        return open_pyslurm(**where)
    return CommandClient(**where)
