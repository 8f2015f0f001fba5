"""One training: split by time, fit, hold against the incumbent and a naive baseline, promote.

This module and those it imports are the only ones that need torch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_ext.core.errors import ModelError
from slurm_ext.model.artifact_store import current
from slurm_ext.model.throughput import artifact as throughput_artifact
from slurm_ext.training.promotion import TrainingVerdict, promote, promotion_veto
from slurm_ext.training.throughput.dataset import Example, Split, split
from slurm_ext.training.throughput.fit import Array, Network, difference, fit, matrix
from slurm_ext.training.throughput.scoring import naive, score, widened

FEWEST = 40  # runs: the test part is then six, and one user's habit no longer decides
SAME = 1e-9  # largest difference between torch's answers and ours that rounding explains


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorReport(TrainingVerdict):
    """`scores` by ours, naive and incumbent (mean absolute log error)."""


def train(
    every: Sequence[Example],
    models: Path,
    *,
    seed: int = 0,
    told: Callable[[int, float], None] = lambda _step, _loss: None,
) -> PriorReport:
    """Fit on the oldest of `every`, promote into `models` if the newest say so.

    Raises ModelError where the exported model does not answer as the fitted one does.
    """
    if len(every) < FEWEST:
        return PriorReport(
            promoted=False,
            why=f"{len(every)} runs are too few, {FEWEST} are needed",
            runs=len(every),
        )
    parts = split(every)
    weights, network = fit(parts.train, seed, told)
    weights = widened(weights, parts.calibrate)
    scores = _scores(weights, parts, models)
    window = (every[0].end_s, every[-1].end_s)
    files = throughput_artifact.serialize(
        {"window_s": window, "runs": len(every), "seed": seed, "scores": scores}, weights
    )
    why_not = promotion_veto(scores["ours"], scores["naive"], scores["incumbent"])
    name = None
    if why_not is None:
        _reproduced(network, weights, matrix(parts.test))
        name = promote(models, "prior", files, throughput_artifact.load)
    return PriorReport(
        promoted=why_not is None,
        why=why_not or "its error on later runs is the smallest",
        runs=len(every),
        model=name,
        window_s=window,
        scores=scores,
    )


def _scores(weights: dict[str, Array], parts: Split, models: Path) -> dict[str, Any]:
    serving = _serving(models)
    return {
        "ours": score(weights, parts.test),
        "naive": naive(parts.train, parts.test),
        "incumbent": None if serving is None else score(dict(serving.weights), parts.test),
    }


def _serving(models: Path) -> throughput_artifact.PriorArtifact | None:
    folder = current(models)
    try:
        return None if folder is None else throughput_artifact.load(folder)
    except ModelError:
        return None  # a damaged model serves nobody: whatever is better than naive replaces it


def _reproduced(network: Network, weights: dict[str, Array], rows: Array) -> None:
    apart = difference(network, weights, rows)
    if not apart <= SAME:
        raise ModelError(
            f"the exported model differs from the fitted one by {apart:.2g}: not promoted"
        )
