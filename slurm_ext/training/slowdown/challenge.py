"""Whether what a site's shared runs taught foretells those that came later; promoted if it does.

Learnt from the older part, scored on the later one, and there on pairs that the older part has not
seen where enough of them came; against the serving model, the mean of the older part, and no
knowledge at all. A serving model is held against us only by runs that it has not learnt from: the
newer half of those since. What is promoted is then learnt from everything.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from slurm_ext.core.errors import ModelError
from slurm_ext.core.gpu_sharing import CorunMeasurement, RelativeSpeed, SoloProfile
from slurm_ext.model.artifact_store import current
from slurm_ext.model.slowdown.artifact import FOLDER, SlowdownArtifact, load, serialize
from slurm_ext.model.slowdown.completion_kernel import CompletionKernel
from slurm_ext.model.slowdown.model import KERNELS, SlowdownModel
from slurm_ext.model.slowdown.pair_measurement import key
from slurm_ext.training.promotion import TrainingVerdict, promote, promotion_veto
from slurm_ext.training.slowdown.fit import fitted
from slurm_ext.training.slowdown.history_runs import SharedRun, SharingHistory

FEWEST = 30  # runs together: a fifth of them is then enough to tell a good model from luck
LATER = 0.3  # of the runs
FEWEST_LATER = 8  # runs to score; with fewer of pairs not seen before, all later ones are scored
SAME = 1e-9  # largest difference that reading back may make


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingReport(TrainingVerdict):
    """`scores` by ours, mean, nothing and incumbent (MAE of relative speeds)."""

    pairs: int = 0
    refused: int = 0
    scored: str | None = None  # on which later runs


def challenge(learnt: SharingHistory, models: Path) -> SharingReport:
    """Learn, score, and serve it from `models/slowdown/current` where it foretells better.

    Raises ModelError where it cannot be written, or does not read back as it is.
    """
    rows = learnt.rows
    told = SharingReport(
        promoted=False,
        why=f"{len(rows)} runs beside others are too few, {FEWEST} are needed",
        runs=len(rows),
        pairs=len({_pair(row.together) for row in rows}),
        refused=learnt.refused,
    )
    if len(rows) < FEWEST:
        return told
    serving = _serving(models)
    older, later, what = split(rows, None if serving is None else serving.about["window_s"][1])
    if len(later) < FEWEST_LATER:
        return replace(told, why=f"{len(later)} runs since the serving model are too few to judge")
    scores = _scores(older, later, learnt, None if serving is None else serving.slowdowns)
    why_not = promotion_veto(scores["ours"], scores["mean"], scores["incumbent"])
    if why_not is None and scores["ours"]["mae"] >= scores["nothing"]["mae"]:
        why_not = "no knowledge at all foretells them as well"
    window = (rows[0].end_s, rows[-1].end_s)
    told = replace(told, window_s=window, scored=what, scores=scores)
    if why_not is not None:
        return replace(told, why=why_not)
    about = {"window_s": window, "runs": len(rows), "scored": what, "scores": scores}
    name = _serve(*fitted([row.together for row in rows], learnt.solos), about, models)
    why = "its error on later runs is the smallest"
    return replace(told, promoted=True, why=why, model=name)


def split(
    rows: Sequence[SharedRun], since_s: float | None
) -> tuple[list[CorunMeasurement], list[CorunMeasurement], str]:
    """The older part, the later one, and what that consists of; `since_s`: when serving ends."""
    fresh = sum(since_s is None or row.end_s > since_s for row in rows)
    later_rows = round(LATER * len(rows)) if since_s is None else fresh // 2
    cut = len(rows) - min(later_rows, round(LATER * len(rows)))
    older = [row.together for row in rows[:cut]]
    later = [row.together for row in rows[cut:]]
    known = {_pair(one) for one in older}
    unseen = [one for one in later if _pair(one) not in known]
    if since_s is None and len(unseen) >= FEWEST_LATER:
        return older, unseen, f"{len(unseen)} later runs of pairs not seen before"
    return older, later, f"{len(later)} later runs, {len(unseen)} of pairs not seen before"


def _pair(one: CorunMeasurement) -> object:
    return key(one.job, one.partners, one.device)


def _scores(
    older: Sequence[CorunMeasurement],
    later: Sequence[CorunMeasurement],
    learnt: SharingHistory,
    serving: SlowdownModel | None,
) -> dict[str, Any]:
    ours, _ = fitted(older, learnt.solos)
    mean = float(np.exp(np.mean([np.log(one.speed) for one in older])))
    measured = np.array([one.speed for one in later])
    return {
        "ours": score(ours, later, learnt),
        "mean": {"mae": float(np.abs(measured - mean).mean())},
        "nothing": score(SlowdownModel(), later, learnt),
        "incumbent": None if serving is None else score(serving, later, learnt),
    }


def score(
    known: SlowdownModel, later: Sequence[CorunMeasurement], learnt: SharingHistory
) -> dict[str, float]:
    """Mean absolute error, the share inside the 90 % interval, and below its lower end."""
    told = [_told(known, one, learnt) for one in later]
    measured = np.array([one.speed for one in later])
    low, mean, high = (np.array([getattr(t, end) for t in told]) for end in ("low", "mean", "high"))
    return {
        "mae": float(np.abs(measured - mean).mean()),
        "coverage90": float(((low <= measured) & (measured <= high)).mean()),
        "below_low": float((measured < low).mean()),
    }


def _told(known: SlowdownModel, one: CorunMeasurement, learnt: SharingHistory) -> RelativeSpeed:
    alone = [learnt.solos.get(name, SoloProfile(key=name)) for name in (one.job, *one.partners)]
    return known.speed(alone[0], alone[1:], one.device)


def _serving(models: Path) -> SlowdownArtifact | None:
    folder = current(models / FOLDER)
    try:
        return None if folder is None else load(folder)
    except ModelError:
        return None  # a damaged model serves nobody


def _serve(
    known: SlowdownModel, kernels: dict[bool, CompletionKernel], about: dict[str, Any], models: Path
) -> str:
    files = serialize(known, {**KERNELS, **kernels}, about)
    return promote(models / FOLDER, "slowdown", files, lambda folder: _check(known, folder))


def _check(known: SlowdownModel, folder: Path) -> None:
    """Raises ModelError where what was written answers otherwise than what was fitted."""
    read = load(folder).slowdowns
    for device, job, partners in list(known.met)[:100]:
        asked = SoloProfile(key=job), [SoloProfile(key=name) for name in partners], device
        if abs(known.speed(*asked).low - read.speed(*asked).low) > SAME:
            raise ModelError(f"read back, the model answers otherwise for {job} on {device}")
