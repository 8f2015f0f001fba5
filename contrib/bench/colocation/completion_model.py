"""A new GPU's table of pairs, filled in from the revealed ones: a study, and what dlqueue does.

The study goes beyond dlqueue, which has one table in logs and lends nothing (`shipped`). It is the
mean of two processes of model/slowdown/completion.py: one in logs of speeds, one in log odds (which
separates speeds near the top better). The kernel is the likeliest one given the revealed pairs.
Another GPU's value of a pair counts as far as the revealed pairs agree with it. The interval comes
from pairs left out.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from contrib.bench.colocation.gavel_tables import Table
from contrib.bench.colocation.new_gpu_features import columns
from contrib.bench.common.arrays import Array
from slurm_ext.core.gpu_sharing import CorunMeasurement, SoloProfile
from slurm_ext.core.stats import NORMAL_90
from slurm_ext.model.slowdown.completion import Completion, PairSpeed, complete
from slurm_ext.model.slowdown.completion_kernel import CompletionKernel, JobTraits, Role
from slurm_ext.model.slowdown.model import HIGH_SDS, LOW_SDS, slowdown_model
from slurm_ext.training.slowdown.fit_completion import likeliest, misses

LENT = (0.25, 0.5, 0.75, 1.0)  # shares of another GPU's deviations that are tried
DOWN, UP = LOW_SDS / NORMAL_90, HIGH_SDS / NORMAL_90  # of a symmetric 90 % interval's half
TOP, SLOWEST, FASTEST = 1.1, 0.03, 1.05  # of log odds: beyond, a speed says no more
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Drawn:
    """One draw: the new GPU's table, the others', and the pairs revealed and to predict."""

    new: Table
    others: tuple[Table, ...]
    revealed: tuple[Pair, ...]
    queries: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class Scale:
    """Transform of speeds, its inverse, and the first kernel on that scale."""

    there: Callable[[Array], Array]
    back: Callable[[Array], Array]
    kernel: CompletionKernel


def _odds(speed: Array) -> Array:
    return np.asarray(-np.log(TOP / np.clip(speed, SLOWEST, FASTEST) - 1.0))


def _of_odds(odds: Array) -> Array:
    return np.asarray(TOP / (1.0 + np.exp(-odds)))


def _stretched(kernel: CompletionKernel, level: float, by: float) -> CompletionKernel:
    """The same kernel where all variances are `by` times as large."""
    roles: dict[str, Any] = {}
    for name in ("sensitivity", "pressure"):  # the others are parts of a product
        role: Role = getattr(kernel, name)
        roles[name] = replace(
            role, family=role.family * by, own=role.own * by, vector=role.vector * by
        )
    return replace(
        kernel,
        level=level,
        level_var=kernel.level_var * by,
        theirs_var=kernel.theirs_var * by,
        both_var=kernel.both_var * by,
        self_var=kernel.self_var * by,
        noise_var=kernel.noise_var * by,
        **roles,
    )


LOGS = Scale(np.log, np.exp, CompletionKernel())
# At half speed log odds move twice as fast as logs, and more above: six times the variance.
ODDS = Scale(_odds, _of_odds, _stretched(CompletionKernel(), 0.3, 6.0))


def completed(drawn: Drawn) -> tuple[Array, Array, Array]:
    """Mean and 90 % interval of the pairs to predict."""
    mean, sds, revealed = _filled(drawn, LOGS)
    other, _, _ = _filled(drawn, ODDS)
    both = np.maximum((mean + other) / 2, SLOWEST)
    missed = np.sort(np.abs(misses(revealed, CompletionKernel(), traits=_traits(drawn))))
    wide = missed[min(len(missed) - 1, int(np.ceil(0.9 * (len(missed) + 1))) - 1)]
    return both, both * np.exp(-DOWN * wide * sds), both * np.exp(UP * wide * sds)


def shipped(drawn: Drawn) -> Array:
    """Speeds by dlqueue's own model (slowdown/model.py) of the same pairs, by its first kernel."""
    gpu, traits = drawn.new.gpu, _traits(drawn)
    pairs = [
        CorunMeasurement(
            job=job,
            partners=(other,),
            speed=drawn.new.speeds[job, other],
            seconds=3600.0,
            device=gpu,
        )
        for job, other in drawn.revealed
    ]
    model = slowdown_model(pairs, traits=traits)
    solos = {job: SoloProfile(key=job) for job in drawn.new.solo}
    return np.array([model.speed(solos[a], [solos[b]], gpu).mean for a, b in drawn.queries])


def _filled(drawn: Drawn, scale: Scale) -> tuple[Array, Array, list[PairSpeed]]:
    """Means as speeds, standard deviations on the scale, and what was seen there."""
    traits = _traits(drawn)
    kernel = likeliest(_seen(drawn, scale, {}), scale.kernel, traits=traits)
    lent = min(
        _lendings(drawn, scale),
        key=lambda each: _missed(complete(_seen(drawn, scale, each), kernel=kernel, traits=traits)),
    )
    revealed = _seen(drawn, scale, lent)
    kernel = likeliest(revealed, scale.kernel, traits=traits)
    filled = complete(revealed, kernel=kernel, traits=traits, jobs=list(drawn.new.solo))
    off, sds = filled.predict_all(drawn.queries, drawn.new.gpu)
    mean = kernel.level + off + np.array([lent.get(pair, 0.0) for pair in drawn.queries])
    return scale.back(mean), np.sqrt(sds**2 + kernel.noise_var), revealed


def _seen(drawn: Drawn, scale: Scale, lent: Mapping[Pair, float]) -> list[PairSpeed]:
    """The revealed pairs, off what is lent to them."""
    there = scale.there(np.array([drawn.new.speeds[pair] for pair in drawn.revealed]))
    return [
        PairSpeed(
            job=pair[0],
            partner=pair[1],
            device=drawn.new.gpu,
            log_speed=float(value) - lent.get(pair, 0.0),
            log_sd=0.0,
        )
        for pair, value in zip(drawn.revealed, there, strict=True)
    ]


def _lendings(drawn: Drawn, scale: Scale) -> Iterator[dict[Pair, float]]:
    """None, then shares of each other GPU's deviations from its own mean."""
    yield {}
    for other in drawn.others:
        there = scale.there(np.array(list(other.speeds.values())))
        off = there - there.mean()
        for share in LENT:
            yield {
                pair: share * float(deviation)
                for pair, deviation in zip(other.speeds, off, strict=True)
            }


def _missed(filled: Completion) -> float:
    """Mean miss of pairs left out."""
    return float(np.abs(leave_one_out(filled)[0]).mean())


def _traits(drawn: Drawn) -> dict[str, JobTraits]:
    """A job's model, its batch, and how much faster or slower it is than on the other GPUs."""
    ratios = columns(drawn.new, drawn.others)
    return {
        job: JobTraits(
            family=drawn.new.models[job],
            size=drawn.new.sizes[job],
            vector=tuple(float(ratio) for ratio in ratios[job]),
        )
        for job in drawn.new.solo
    }


def leave_one_out(table: Completion) -> tuple[Array, Array]:
    """Predict each measured pair from all others: the error, and its sd with noise.

    Closed form (Rasmussen and Williams 2006, 5.4.2); both directions of a pair are left out
    together, because one predicts the other well.
    """
    errors, sds = np.zeros(len(table.weights)), np.zeros(len(table.weights))
    for rows in _both_ways(table):
        block = np.linalg.inv(table.inverse[np.ix_(rows, rows)])
        errors[rows] = block @ table.weights[rows]
        sds[rows] = np.sqrt(np.diag(block))
    return errors, sds


def _both_ways(table: Completion) -> list[list[int]]:
    rows: dict[tuple[int, ...], list[int]] = {}
    for row, (job, partner, on) in enumerate(table.at.T):
        rows.setdefault((*sorted((int(job), int(partner))), int(on)), []).append(row)
    return list(rows.values())
