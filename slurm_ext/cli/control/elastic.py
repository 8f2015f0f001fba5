"""`dlqueue control --elastic`: GPUs divided among the jobs whose owners let their size change."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_ext.control.loops.cluster_loop import ControlLoop
    from slurm_ext.control.loops.loop_memory import LoopFolder
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.slurm import SlurmClient


def make(settings: "Settings", client: "SlurmClient", folder: "LoopFolder") -> "ControlLoop":
    """The loop. Raises InputError where its memory is damaged."""
    from slurm_ext.control.elastic.elastic_loop import ElasticLoop

    return ElasticLoop(settings, client, folder)


def details(status: Mapping[str, Any]) -> Iterator[str]:
    """Each partition's division, and who is left alone."""
    for pool in status["details"].get("pools", []):
        yield f"partition {pool['partition']}: {pool['gpus']} GPUs for elastic jobs"
        for one in pool["jobs"]:
            verb = "has" if one["runs"] else "asks for"
            wanted = "waits" if one["wanted"] is None else f"{one['wanted']} wanted"
            bounds = f"{one['least']} to {one['most']}"
            yield f"  job {one['job']} ({bounds}): {verb} {one['gpus']}, {wanted}"
    for job, why in sorted(status["details"].get("left_alone", {}).items()):
        yield f"job {job} is left alone: {why}"
