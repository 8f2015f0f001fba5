"""Share of a training's time that its loops waited for data: one figure for every command."""

from collections.abc import Mapping, Sequence
from typing import Any

from slurm_ext.core.findings.loader_refusal import read_by_a_thread
from slurm_ext.core.findings.strands import total
from slurm_ext.core.trainings import largest_training


def waited_share(summaries: Sequence[Mapping[str, Any]]) -> float | None:
    """Share of the whole run's loops, first pass included; None: it cannot be known."""
    training = largest_training(summaries)
    if training is None or any(read_by_a_thread(loader) for _, loader in training.members):
        return None
    waited_s = sum(total(loader, "wait_s") for _, loader in training.members)
    loop_s = waited_s + sum(total(loader, "step_s") for _, loader in training.members)
    return round(waited_s / loop_s, 4) if loop_s > 0 else None
