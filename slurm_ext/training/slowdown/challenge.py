"""Fits what slows jobs that share, and promotes it if it predicts the newest shared runs best.

It is fitted to the older runs and scored on the later ones: on pairs that the older part does not
have, where there are enough of them. The baselines are the mean of the older part and no knowledge
at all. Only runs that the serving model has not learned from are used to compare with it: the newer
half of those since. A promoted model is then fitted to all runs.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from slurm_ext.core.gpu_sharing import CorunMeasurement, RelativeSpeed, SoloProfile
from slurm_ext.model.slowdown.artifact import FOLDER, load, serialize
from slurm_ext.model.slowdown.model import KERNELS, SlowdownModel
from slurm_ext.model.slowdown.pair_measurement import key
from slurm_ext.training.challenger import Challenger, Export, Scores, TrainingVerdict
from slurm_ext.training.promotion import serving_model
from slurm_ext.training.slowdown.fit import fitted
from slurm_ext.training.slowdown.history_runs import SharedRun, SharingHistory

FEWEST = 30  # shared runs: a fifth of them is then enough to tell a good model from luck
LATER = 0.3  # of the runs
FEWEST_LATER = 8  # runs to score; with fewer of unseen pairs, all later ones are scored
MOST_COMPARED = 100  # pairs whose answers are compared after reading back


def challenge(history: SharingHistory, models: Path) -> TrainingVerdict:
    """Fit, score, and let the model serve from `models/slowdown/current` if it predicts better.

    Raises ModelError if it cannot be written, or does not read back as it is.
    """
    runs = history.rows
    pairs = len({_pair(run.together) for run in runs})
    verdict = TrainingVerdict(
        why=f"{len(runs)} runs beside others are too few, {FEWEST} are needed",
        runs=len(runs),
        details={"pairs": pairs, "refused": history.refused, "scored": None},
    )
    if len(runs) < FEWEST:
        return verdict
    serving = serving_model(models / FOLDER, load)
    older, later, scored = split(runs, None if serving is None else serving.about["window_s"][1])
    if len(later) < FEWEST_LATER:
        why = f"{len(later)} runs since the serving model are too few to judge"
        return replace(verdict, why=why)
    window = (runs[0].end_s, runs[-1].end_s)

    def scores(model: SlowdownModel) -> Scores:
        mean = float(np.exp(np.mean([np.log(corun.speed) for corun in older])))
        measured = np.array([corun.speed for corun in later])
        return {
            "ours": score(model, later, history),
            "mean": {"mae": float(np.abs(measured - mean).mean())},
            "nothing": score(SlowdownModel(), later, history),
            "incumbent": None if serving is None else score(serving.slowdowns, later, history),
        }

    def export(_: SlowdownModel, scores: Scores) -> Export:
        about = {"window_s": window, "runs": len(runs), "scored": scored, "scores": scores}
        model, kernels = fitted([run.together for run in runs], history.solos)
        files = serialize(model, {**KERNELS, **kernels}, about)
        return Export(files, lambda folder: difference(model, load(folder).slowdowns))

    return Challenger(
        kind="slowdown",
        folder=models / FOLDER,
        fit=lambda: fitted(older, history.solos)[0],
        score=scores,
        baselines={
            "mean": "its error {ours:.3f} is not below the naive mean's {theirs:.3f}",
            "nothing": "no knowledge at all predicts them as well",
        },
        export=export,
    ).challenge(replace(verdict, window_s=window, details={**verdict.details, "scored": scored}))


def split(
    runs: Sequence[SharedRun], since_s: float | None
) -> tuple[list[CorunMeasurement], list[CorunMeasurement], str]:
    """Return the older part, the runs to score, and words for what those are.

    `since_s`: end of the runs that the serving model has learned from.
    """
    fresh = sum(since_s is None or run.end_s > since_s for run in runs)
    most = round(LATER * len(runs))
    cut = len(runs) - (most if since_s is None else min(fresh // 2, most))
    older = [run.together for run in runs[:cut]]
    later = [run.together for run in runs[cut:]]
    met_pairs = {_pair(corun) for corun in older}
    unseen = [corun for corun in later if _pair(corun) not in met_pairs]
    if since_s is None and len(unseen) >= FEWEST_LATER:
        return older, unseen, f"{len(unseen)} later runs of pairs not seen before"
    return older, later, f"{len(later)} later runs, {len(unseen)} of pairs not seen before"


def _pair(run: CorunMeasurement) -> object:
    return key(run.job, run.partners, run.device)


def score(
    model: SlowdownModel, later: Sequence[CorunMeasurement], history: SharingHistory
) -> dict[str, float]:
    """Mean absolute error, the share in the 90 % interval, and the share below its lower end."""
    speeds = [_predict(model, run, history) for run in later]
    measured = np.array([run.speed for run in later])
    low, mean, high = (
        np.array([getattr(speed, end) for speed in speeds]) for end in ("low", "mean", "high")
    )
    return {
        "mae": float(np.abs(measured - mean).mean()),
        "coverage90": float(((low <= measured) & (measured <= high)).mean()),
        "below_low": float((measured < low).mean()),
    }


def _predict(model: SlowdownModel, run: CorunMeasurement, history: SharingHistory) -> RelativeSpeed:
    job, *partners = (
        history.solos.get(name, SoloProfile(key=name)) for name in (run.job, *run.partners)
    )
    return model.speed(job, partners, run.device)


def difference(ours: SlowdownModel, other: SlowdownModel) -> float:
    """Largest difference of lower ends, over the pairs that were measured."""
    return max(
        (
            abs(ours.speed(*query).low - other.speed(*query).low)
            for device, job, names in list(ours.met)[:MOST_COMPARED]
            for query in [(SoloProfile(key=job), [SoloProfile(key=n) for n in names], device)]
        ),
        default=0.0,
    )
