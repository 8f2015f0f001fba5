"""Fits the throughput prior and promotes it if it predicts the newest runs best.

The runs are split by time: the oldest for the fit, the next for the width of intervals, the newest
for the scores. This module and those that it imports are the only ones that need torch.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from slurm_ext.model.arrays import Array
from slurm_ext.model.throughput.artifact import load, serialize
from slurm_ext.training.challenger import Challenger, Export, Scores, TrainingVerdict
from slurm_ext.training.promotion import serving_model
from slurm_ext.training.throughput.dataset import Example, split
from slurm_ext.training.throughput.fit import Network, difference, fit, matrix
from slurm_ext.training.throughput.scoring import naive, score, widened

FEWEST = 40  # runs: the test part is then six, and one user's habit no longer decides

Fitted = tuple[dict[str, Array], Network]


def challenge(
    examples: Sequence[Example],
    models: Path,
    *,
    seed: int = 0,
    progress: Callable[[int, float], None] = lambda _step, _loss: None,
) -> TrainingVerdict:
    """Fit, score, and let the prior serve from `models/current` if it predicts better.

    `progress` is called with each step and its loss. Raises ModelError if the model cannot be
    written, or the exported model does not answer as the fitted one does.
    """
    why = f"{len(examples)} runs are too few, {FEWEST} are needed"
    verdict = TrainingVerdict(why=why, runs=len(examples))
    if len(examples) < FEWEST:
        return verdict
    parts, serving = split(examples), serving_model(models, load)
    window = (examples[0].end_s, examples[-1].end_s)

    def learn() -> Fitted:
        weights, network = fit(parts.train, seed, progress)
        return widened(weights, parts.calibrate), network

    def scores(fitted: Fitted) -> Scores:
        return {
            "ours": score(fitted[0], parts.test),
            "naive": naive(parts.train, parts.test),
            "incumbent": None if serving is None else score(dict(serving.weights), parts.test),
        }

    def export(fitted: Fitted, scores: Scores) -> Export:
        about = {"window_s": window, "runs": len(examples), "seed": seed, "scores": scores}
        weights, network = fitted
        rows = matrix(parts.test)
        return Export(
            serialize(about, weights),
            lambda folder: difference(network, dict(load(folder).weights), rows),
        )

    return Challenger(
        kind="prior",
        folder=models,
        fit=learn,
        score=scores,
        baselines={"naive": "its error {ours:.3f} is not below the naive median's {theirs:.3f}"},
        export=export,
    ).challenge(replace(verdict, window_s=window))
