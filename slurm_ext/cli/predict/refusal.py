"""Scripts that are refused: by Slurm itself, and here those that go to another cluster.

Options and variables: sbatch(1), --clusters.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_ext.core.records import Submission
    from slurm_ext.core.settings.document import Settings

PATIENCE_S = 3.0  # slurmctld answers in milliseconds, or is busy with more than this question


def must_stay(settings: "Settings", job: "Submission", typed: Sequence[str] = ()) -> None:
    """Raises InputError where the job, with the words typed behind sbatch, goes elsewhere."""
    named = _clusters(job, typed)
    own = settings.values.get("site.cluster", "")
    if named is None or named.lower() == own.lower():
        return
    here = _slurms_name(settings) or own
    if here and named.lower() != here.lower():
        from slurm_ext.core.errors import InputError

        why = f"is for cluster {named} (--clusters): ask the dlqueue there; this is {here}"
        raise InputError(job.argv[0], why)


def _clusters(job: "Submission", typed: Sequence[str]) -> str | None:
    """The value of --clusters that sbatch takes: typed, of its environment, or the script's."""
    import os

    from slurm_ext.advisor.pipeline.sbatch_options import options_of, typed_options
    from slurm_ext.cli.predict.sbatch_line import read_line

    exported = os.environ.get("SLURM_CLUSTERS") or os.environ.get("SBATCH_CLUSTERS")
    options = options_of(job.script or "", job.argv[0]).items()
    line = typed_options(read_line(typed).options if typed else ())
    given = (*options, ("clusters", exported), *line)
    named = [value for name, value in given if name == "clusters" and value]
    return named[-1] if named else None


def _slurms_name(settings: "Settings") -> str | None:
    """This cluster's name in the word of Slurm; None where there is none to ask."""
    from contextlib import suppress

    from slurm_ext.core.errors import SlurmError

    if slurm_is_here(settings, "scontrol"):
        from slurm_ext.slurm.choose import open_client

        with suppress(SlurmError):
            return open_client(settings).config().get("ClusterName")
    return None


def refusal_of(settings: "Settings", script: str, args: Sequence[str]) -> str | None:
    """Slurm's reason, from `sbatch --test-only`; None: none, or no Slurm could be asked."""
    from slurm_ext.core.errors import SlurmError

    if not slurm_is_here(settings, "sbatch"):
        return None
    from slurm_ext.slurm.choose import open_client

    try:
        return open_client(settings).start_of(_typed(script, args), timeout_s=PATIENCE_S).refused
    except SlurmError:
        return None


def slurm_is_here(settings: "Settings", command: str) -> bool:
    """True if the command is there, and finds its cluster at once."""
    from slurm_ext.core.settings.slurm_conf import slurm_conf
    from slurm_ext.core.settings.slurm_place import command_path, slurm_bin

    return bool(command_path(command, slurm_bin(settings))) and slurm_conf(settings) is not None


def _typed(script: str, args: Sequence[str]) -> tuple[str, ...]:
    """The words behind sbatch."""
    return tuple(args) if script == "sbatch" else (script, *args)
