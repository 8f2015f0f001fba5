"""The shape that `dlqueue recommend --nodes` chooses, against the best one, on published rates.

    python -m contrib.bench.recommend --data DATA/throughput [--seed S] [--tables N] [--quick]

A random table has six node types (T4, RTX 2080 Ti or A100, 1 to 8 of them) at random prices; one
model of Sia's tables was measured on one node of one type, and is to be finished before a random
deadline. Its rates elsewhere are predicted from that shape and from the other models' tables (none
of its own rows); its true rates are the measured ones. `one_shape` knows that shape alone,
`a_shape_a_gpu` one node of each kind of GPU in the table besides, as trials of a minute would tell.
`sized`: the bytes of the model's gradients are known, and what a byte took the other models.
`after_N_trials` (sized): the recommender names the shape to try next, which is measured, N times,
fewer where it says that no trial pays. `true_gain` and `true_scaling` are no choosers but oracles:
one shape, and one predicted factor replaced by the measured one.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import log
from pathlib import Path
from statistics import fmean, median, pstdev
from typing import Any

import numpy as np

from contrib.bench.common.program import Result, at_least, options, run
from contrib.bench.recommend import oracle, trials
from contrib.bench.recommend.choosers import (
    BASELINES,
    Chosen,
    Learned,
    gpu_rates,
    learned,
    ours,
    revealed,
)
from contrib.bench.recommend.gradients import gradients, sent
from contrib.bench.recommend.measured import Measured, read_rows
from contrib.bench.recommend.tables import Question, question
from slurm_ext.model.scaling.gpu_speed import GpuRate
from slurm_ext.training.scaling.fit import learn
from slurm_ext.training.scaling.rows import ScalingRow

NEAR = 1.05
THINNED = 8  # rows of the other models that a family is learned from: minutes, not hours
WANTED = ("one_shape", "one_shape_sized", "after_1_trials", "after_2_trials", "a_shape_a_gpu")


def result(args: argparse.Namespace) -> Result:
    """Everything measured. Raises InputError."""
    rows = read_rows(args.data)
    names = sorted({row.model for row in rows})
    models = {name: Measured([row for row in rows if row.model == name]) for name in names}
    dice = np.random.default_rng(args.seed)
    asked = [question(dice, models) for _ in range(20 if args.quick else args.tables)]
    answers = {name: [choose(one) for one in asked] for name, choose in BASELINES.items()}
    known = {name: _without(name, rows, quick=args.quick) for name in names}
    every = [known[one.model].shapes(one, list(revealed(one, each=False))) for one in asked]
    answers["one_shape"] = [ours(*both) for both in zip(asked, every, strict=True)]
    byte_s = sent(args.data)
    sized = {name: replace(one, gradients=gradients(byte_s, name)) for name, one in known.items()}
    answers |= _knowing_more(asked, known, sized, models)
    figures: dict[str, Any] = {name: _scores(asked, chosen) for name, chosen in answers.items()}
    figures |= _after_trials(asked, sized)
    figures |= {"seed": args.seed, "tables": len(asked), "gains": _gains(rows), "quick": args.quick}
    figures["median_missed"] = {
        "on the measured GPU": median(oracle.missed(asked, every, same_gpu=True)),
        "on other GPUs": median(oracle.missed(asked, every, same_gpu=False)),
    }
    return {"bench": "recommend", "figures": figures, "wanted": _wanted(figures)}


def _without(model: str, rows: Sequence[ScalingRow], *, quick: bool) -> Learned:
    """Everything that other models tell."""
    others = [row for row in rows if row.model != model]
    return learned(None if quick else learn(others[::THINNED]), gpu_rates(rows, model))


def _knowing_more(
    asked: Sequence[Question],
    known: Mapping[str, Learned],
    sized: Mapping[str, Learned],
    models: Mapping[str, Measured],
) -> dict[str, list[Chosen]]:
    """Choices with a shape on each GPU, and those of the oracles."""
    found: dict[str, list[Chosen]] = defaultdict(list)
    for one in asked:
        by_others, by_size, truth = known[one.model], sized[one.model], models[one.model]
        each = list(revealed(one, each=True))
        found["a_shape_a_gpu"].append(ours(one, by_others.shapes(one, each)))
        found["a_shape_a_gpu_sized"].append(ours(one, by_size.shapes(one, each)))
        found["true_gain"].append(ours(one, oracle.true_gain(one, by_others, truth)))
        found["true_gain_sized"].append(ours(one, oracle.true_gain(one, by_size, truth)))
        found["true_scaling"].append(ours(one, oracle.true_scaling(one, by_others, truth)))
    return found


def _after_trials(asked: Sequence[Question], known: Mapping[str, Learned]) -> dict[str, Any]:
    """Scores by number of trials, and how many were made."""
    each = [list(trials.choices(one, known[one.model])) for one in asked]
    found = {}
    for count in range(trials.MOST + 1):
        after = [choices[count] for choices in each]
        scores = _scores(asked, [chosen for chosen, _ in after])
        name = f"after_{count}_trials" if count else "one_shape_sized"
        found[name] = {**scores, "trials": fmean(made for _, made in after)}
    return found


def _scores(asked: Sequence[Question], chosen: Iterable[Chosen]) -> dict[str, float]:
    """Shares of tables; a row counts as near the optimum only if it met the deadline."""
    both = list(zip(asked, chosen, strict=True))
    met = [one.time_s(*shape) <= (one.goal.deadline_s or 0.0) for one, shape in both]
    over = [one.cost(*shape) / one.cheapest() for one, shape in both]
    near = [ok and ratio <= NEAR for ok, ratio in zip(met, over, strict=True)]
    return {
        "near": fmean(near),
        "cost_within": fmean(ratio <= NEAR for ratio in over),
        "deadline_met": fmean(met),
        "median_over": median(over),
        "mean_over": fmean(over),
    }


def _gains(rows: Sequence[ScalingRow]) -> dict[str, dict[str, float]]:
    """Log gain of one GPU over another: mean and sd over models, each at its median batch."""
    found = {}
    rates = gpu_rates(rows, "")
    for here, there in (("T4", "RTX2080Ti"), ("T4", "A100"), ("RTX2080Ti", "A100")):
        every = [_log(rates, model, here, there) for model in {one.user for one in rates}]
        logs = [one for one in every if one is not None]
        found[f"{here} to {there}"] = {"mean": fmean(logs), "sd": pstdev(logs), "models": len(logs)}
    return found


def _log(rates: Sequence[GpuRate], model: str, here: str, there: str) -> float | None:
    by_training: dict[str, dict[str, float]] = {}
    for one in rates:
        if one.user == model:
            by_training.setdefault(one.training, {})[one.gpu] = one.samples_per_s
    both = [
        log(each[there] / each[here])
        for each in by_training.values()
        if {here, there} <= each.keys()
    ]
    return median(both) if both else None


def _wanted(figures: dict[str, Any]) -> list[Result]:
    rows = []
    for name in WANTED:
        near, met = figures[name]["near"], figures[name]["deadline_met"]
        rows.append(
            at_least(
                f"{name}: share of tables in time and at most 1.05 of the least cost", 0.9, near
            )
        )
        rows.append(at_least(f"{name}: share of tables whose deadline is met", 0.95, met))
    return rows


def main() -> None:
    """Measure and print; 1 where the folder cannot be used."""
    parser = options(__doc__, quick="twenty tables, without what other trainings tell of scaling")
    parser.add_argument("--data", type=Path, required=True, help="folder of Sia's table")
    parser.add_argument("--seed", type=int, default=1, help="of the random tables (1)")
    parser.add_argument("--tables", type=int, default=100, help="random tables (100)")
    run(parser, result, _print)


def _print(measured: Result) -> None:
    figures = measured["figures"]
    for name, one in figures.items():
        if not isinstance(one, dict) or "near" not in one:
            continue
        print(
            f"{name:18} within 1.05 {one['cost_within']:.2f} (and in time {one['near']:.2f}),"
            f" deadline met {one['deadline_met']:.2f}, cost over the least: median"
            f" {one['median_over']:.2f}, mean {one['mean_over']:.2f}"
        )
    print("median absolute log error of a rate:", figures["median_missed"])
    print("gain of a GPU over another, log:", figures["gains"])


if __name__ == "__main__":
    main()
