"""Slurm's own refusal of a script: an unknown option, a partition, too many CPUs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_ext.core.settings.document import Settings

PATIENCE_S = 3.0  # slurmctld answers in milliseconds, or is busy with more than this question


def refusal_of(settings: "Settings", script: str, args: Sequence[str]) -> str | None:
    """Slurm's reason, from `sbatch --test-only`; None: none, or no Slurm could be asked."""
    from slurm_ext.core.settings.slurm_conf import slurm_conf
    from slurm_ext.core.settings.slurm_place import command_path, slurm_bin

    if not command_path("sbatch", slurm_bin(settings)):
        return None
    if slurm_conf(settings) is None:
        return None
    from slurm_ext.core.errors import SlurmError
    from slurm_ext.slurm.choose import open_client

    try:
        return open_client(settings).start_of(_typed(script, args), timeout_s=PATIENCE_S).refused
    except SlurmError:
        return None


def _typed(script: str, args: Sequence[str]) -> tuple[str, ...]:
    """The words behind sbatch."""
    return tuple(args) if script == "sbatch" else (script, *args)
