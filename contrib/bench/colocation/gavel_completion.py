"""Pairs on a new GPU of which a part was measured: Gavel's PyTorch tables (Narayanan, OSDI 2020).

Each gavel_pytorch_pairs_*.csv of the test folder is a new GPU in turn; the model learns from the
other GPUs' tables of the training folder. 0, 10, 20 or 50 % of its pairs are revealed at random;
the rest is predicted and scored in both directions. Pairs that do not fit in memory are revealed
or left out, but never scored. Each seed draws another part: `mae_by_seed` has the mean and the
spread. The rate of each job alone on the new GPU is known, as a solo run measures it.

Ours is a study, which dlqueue does not have: completion_model.py; if nothing is revealed,
new_gpu_features.py. `dlqueue` among the baselines is the model that sites have.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contrib.bench.colocation import baselines as standard
from contrib.bench.colocation.completion_model import Drawn, completed, shipped
from contrib.bench.colocation.gavel_tables import Table, gpus, table
from contrib.bench.colocation.new_gpu_features import columns, unseen
from contrib.bench.colocation.scores import Predictions, ProtocolResult, joined, row, scores, wanted
from contrib.bench.common.arrays import Array
from slurm_ext.core.errors import InputError

SHARES = (0.0, 0.1, 0.2, 0.5)
SEEDS, QUICK_SEEDS = 8, 2
TARGETS = {"p100": 0.038, "v100": None}  # V100: none, it was seen while building
TARGET = 0.033  # on a GPU never seen
SCORED_SHARE = 0.2
ALS_RANK, ALS_ROUNDS, ALS_PULL = 3, 30, 0.1


def protocol(train: Path, test: Path, *, quick: bool) -> ProtocolResult:
    """Every GPU of the test folder. Raises InputError where it has none, or no other to learn."""
    figures: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    skipped: list[str] = []
    for path in gpus(test):
        new, bad = table(path)
        skipped += bad
        others = tuple(
            table(path_of_gpu)[0] for path_of_gpu in gpus(train) if path_of_gpu.name != path.name
        )
        if not others:
            skipped.append(f"{path}: {train} has no other GPU's table to learn from")
            continue
        for share in SHARES[:: 2 if quick else 1]:
            name = f"gavel_pytorch_{new.gpu}_{share:.0%}".replace("%", "")
            figures[name] = _scored(new, others, share, quick=quick)
            rows += _wanted(name, new.gpu, share, figures[name])
    if not figures:
        raise InputError(str(test / "gpu_coloc"), "; ".join(skipped) or "has no PyTorch pairs")
    return ProtocolResult(figures, rows, skipped)


def _scored(new: Table, others: tuple[Table, ...], share: float, *, quick: bool) -> dict[str, Any]:
    """All seeds' rows scored at once, and the error by seed."""
    seeds = 1 if not share else QUICK_SEEDS if quick else SEEDS
    parts = [_predictions(_draw(new, others, share, seed), quick=quick) for seed in range(seeds)]
    figures: dict[str, Any] = scores(joined(parts))
    by_seed = [float(np.abs(t.mean - t.measured).mean()) for t in parts]
    figures["mae_by_seed"] = {
        "mean": float(np.mean(by_seed)),
        "sd": float(np.std(by_seed)),
        "seeds": seeds,
    }
    return figures


def _draw(new: Table, others: tuple[Table, ...], share: float, seed: int) -> Drawn:
    order = np.random.default_rng(seed).permutation(len(new.pairs))
    revealed = set(order[: round(share * len(order))])
    shown = [p for at, p in enumerate(new.pairs) if at in revealed]
    queries = [p for at, p in enumerate(new.pairs) if at not in revealed]
    return Drawn(new, others, _directed(new, shown), _directed(new, queries))


def _directed(new: Table, pairs: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    both = dict.fromkeys(each for a, b in pairs for each in ((a, b), (b, a)))
    return tuple(each for each in both if each in new.speeds)


def _predictions(drawn: Drawn, *, quick: bool) -> Predictions:
    measured = np.array([drawn.new.speeds[pair] for pair in drawn.queries])
    mean, low, high = (
        completed(drawn) if drawn.revealed else unseen(drawn.new, drawn.others, drawn.queries)
    )
    return Predictions(measured, mean, low, high, _baselines(drawn, quick=quick))


def _baselines(drawn: Drawn, *, quick: bool) -> dict[str, Array]:
    """With nothing revealed, what the other GPUs' tables say of their own pairs."""
    first = drawn.others[0]
    everyone = np.array([v for other in drawn.others for v in other.speeds.values()])
    of_first = float(np.mean(list(first.speeds.values())))
    copied = np.array([first.speeds.get(pair, of_first) for pair in drawn.queries])
    predictions = {
        f"copy_of_{first.gpu}": copied,
        f"mean_of_{first.gpu}": np.full(len(copied), of_first),
    }
    queries = _features(drawn, drawn.queries)
    if not drawn.revealed:
        return {"mean": np.full(len(copied), float(everyone.mean())), **predictions}
    speeds = np.array([drawn.new.speeds[pair] for pair in drawn.revealed])
    predictions |= standard.every(_features(drawn, drawn.revealed), speeds, queries, quick=quick)
    return {**predictions, f"als_rank{ALS_RANK}": _als(drawn), "dlqueue": shipped(drawn)}


def _features(drawn: Drawn, pairs: Sequence[tuple[str, str]]) -> Array:
    """Both jobs' model, batch and ratio to other GPUs, and the other GPUs' speeds of the pair."""
    models = sorted(set(drawn.new.models.values()))
    ratios = columns(drawn.new, drawn.others)
    rows = []
    for a, b in pairs:
        each = [float(drawn.new.models[job] == model) for job in (a, b) for model in models]
        each += [drawn.new.sizes[a], drawn.new.sizes[b], *ratios[a], *ratios[b]]
        for other in drawn.others:
            each += [other.speeds.get(pair, np.nan) for pair in ((a, b), (b, a))]
        rows.append(each)
    return np.array(rows, dtype=np.float64)


def _als(drawn: Drawn) -> Array:
    """Alternating least squares on the table of (job, partner), off its mean, as Gavel does."""
    jobs = {job: at for at, job in enumerate(drawn.new.solo)}
    mean = float(np.mean([drawn.new.speeds[pair] for pair in drawn.revealed]))
    values, mask = np.zeros((len(jobs),) * 2), np.zeros((len(jobs),) * 2)
    for a, b in drawn.revealed:
        values[jobs[a], jobs[b]], mask[jobs[a], jobs[b]] = drawn.new.speeds[a, b] - mean, 1.0
    right = np.random.default_rng(0).normal(size=(len(jobs), ALS_RANK)) * 0.1
    for _ in range(ALS_ROUNDS):
        left = _solved(values, mask, right)
        right = _solved(values.T, mask.T, left)
    filled = mean + left @ right.T
    return np.array([filled[jobs[a], jobs[b]] for a, b in drawn.queries])


def _solved(values: Array, mask: Array, factors: Array) -> Array:
    pull = ALS_PULL * np.eye(ALS_RANK)
    return np.array(
        [
            np.linalg.solve((factors * m[:, None]).T @ factors + pull, factors.T @ (m * v))
            for v, m in zip(values, mask, strict=True)
        ]
    )


def _wanted(name: str, gpu: str, share: float, figures: dict[str, Any]) -> list[dict[str, Any]]:
    target = TARGETS.get(gpu, TARGET)
    if target and share == SCORED_SHARE:
        made: list[dict[str, Any]] = wanted(name, figures["ours"], mae=target, accepts=True)
        return made
    if share:
        return []
    best = min(
        value["mae"] for key, value in figures["baselines"].items() if key.startswith("mean_of")
    )
    got = figures["ours"]["mae"]
    return [row(f"{name}: MAE below the other GPU's mean", best, got, met=got < best)]
