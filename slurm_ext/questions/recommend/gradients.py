"""The size of a training's gradients, and what a byte of theirs took other trainings."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_ext.core.records import Level
    from slurm_ext.history.views.sync_rows import SyncRow
    from slurm_ext.model.scaling.by_bytes import ByteSeconds, GradientBytes

MOST_ROWS = 2000  # the newest: each is of some kilobytes


def gradients_of(
    rows: Iterable["SyncRow"], keys: Mapping["Level", int], size: float | None
) -> "GradientBytes | None":
    """The size by its user, else by its newest run on several GPUs; None: nothing is known.

    Its own runs tell nothing of others' bytes: they are measurements already.
    """
    from slurm_ext.core.gpu_request import is_model
    from slurm_ext.core.records import Level
    from slurm_ext.model.scaling.by_bytes import GradientBytes

    every = [row for row in rows if row.run.bucket_bytes]
    mine = [row for row in every if row.script == keys.get(Level.SCRIPT)]
    size = size or (sum(mine[0].run.bucket_bytes) if mine else None)
    others = [_bytes(row) for row in every if row not in mine and _tells(row)]
    newest = {
        (example.user, example.training, example.gpu, example.ranks, example.nodes): example
        for example in reversed(others)
    }
    examples = tuple(newest.values())
    return GradientBytes(size=size, others=examples, is_gpu=is_model) if size and examples else None


def _tells(row: "SyncRow") -> bool:
    """True unless a hook may have sent fewer bytes, or nobody knows on which GPU."""
    return row.run.accelerator is not None and row.run.comm_hook is None


def _bytes(row: "SyncRow") -> "ByteSeconds":
    from slurm_ext.model.scaling.by_bytes import ByteSeconds

    run = row.run
    return ByteSeconds(
        training=str(row.script),
        user=row.user,
        gpu=run.accelerator or "",
        ranks=run.ranks,
        nodes=run.nodes,
        seconds=run.syncs * run.exposed_s / sum(run.bucket_bytes),
    )
