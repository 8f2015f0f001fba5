"""The scaling family of this site that commands read beside the history."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.model.scaling.family import Family


def scaling_family(settings: "Settings") -> "Family | None":
    """This site's family of scaling curves; None: there is none that can be read."""
    from slurm_ext.core.errors import ModelError
    from slurm_ext.model.artifact_store import current

    try:
        folder = current(settings.state_dir / "models" / "scaling")
        if folder is None:
            return None
        from slurm_ext.model.scaling.artifact import load  # numpy

        return load(folder)
    except ModelError:
        return None  # a wider interval; `dlqueue train` replaces it
