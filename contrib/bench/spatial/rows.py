"""Rows of `wanted`, of each part of the benchmark: its targets beside what was measured."""

from collections.abc import Callable, Iterator
from typing import Any

from contrib.bench.common.program import at_least, at_most, row

MOST = {2: 0.6, 4: 0.35}  # of serial's activations, by ranks
NEAR = 1.05
OVER = "chosen_over_none"
Rows = Iterator[dict[str, Any]]


def _of_exactness(figures: dict[str, Any]) -> Rows:
    for precision, most in (("float32", 1e-6), ("float64", 1e-12)):
        rows = [v for name, v in figures.items() if name.endswith(precision)]
        for what in rows[0]:
            yield at_most(f"{precision}: {what}", most, max(one[what] for one in rows))


def _of_rounding(figures: dict[str, Any]) -> Rows:
    rows = list(figures.values())
    absolute = max(one["slabs against serial"] * one["largest"] for one in rows)
    yield at_most("float32: input gradient, absolute", 1e-6, absolute)
    over = max(one["rms of slabs over rms of serial"] for one in rows)
    yield at_most("float32: error of input gradients against double, over serial's", 1.25, over)


def _of_memory(figures: dict[str, Any]) -> Rows:
    for ranks, most in MOST.items():
        for name, share in figures[str(ranks)].items():
            yield at_most(f"activations of a rank over serial: {name}", most, share)


def _of_curve(figures: dict[str, Any]) -> Rows:
    yield at_most("loss curve against serial", 1e-9, figures["furthest"])


def _of_choice(figures: list[dict[str, Any]]) -> Rows:
    equal = all(one["is_best_of_model"] for one in figures)
    yield row("recommended mesh is the best of its own model", True, equal, met=equal)
    for who in ("chosen", "recommended"):
        worst = max(one[f"{who}_over_best"] for one in figures)
        yield at_most(f"{who} mesh over the best measured, in time", NEAR, worst)


def _of_overlap(figures: dict[str, Any]) -> Rows:
    for link, one in figures.items():
        if link != "why_not":
            yield at_most(f"steps with overlap where it pays over none: {link}", 1.02, one[OVER])


def _of_scaling(figures: dict[str, float]) -> Rows:
    yield at_least("two ranks over one rank of one thread", 1.6, figures["speedup"])
    alike = figures["speedup_over_the_same_kernels"]
    yield at_least("two ranks over one that convolves as slabs do", 1.6, alike)


WANTED: dict[str, Callable[[Any], Rows]] = {
    "exactness": _of_exactness,
    "rounding": _of_rounding,
    "memory": _of_memory,
    "curve": _of_curve,
    "choice": _of_choice,
    "overlap": _of_overlap,
    "scaling": _of_scaling,
}
