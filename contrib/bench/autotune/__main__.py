"""First runs of trainings that nobody has seen, tuned by the probe, against every fixed count.

For each training, in this order, on all cores of this machine: every fixed worker count for a
quarter of `--seconds` (the exhaustive search), then for `--seconds` each: as written, tuned from
as written, and with the best fixed count from its first batch on (the perfect start). Best are the
fewest workers that come near the fastest count, as two equal runs differ by some per cent. The
tuned run's rate after settling is that of its last third, against the best rate of the same stretch
of any run with a fixed count. Its gain is steps beyond those of the run as written, as a share of
the perfect start's, where that is not as written. Baselines are rules of thumb: as many workers as
CPUs (Lightning), four for each GPU (PyTorch's own advice), twice the cores.

The accelerator is emulated by a timed wait for each batch. Figures need a quiet machine.
"""

import argparse
import os
import sys
from statistics import median
from typing import Any

from contrib.bench.autotune.kinds import KINDS
from contrib.bench.autotune.runs import Trained, train
from contrib.bench.common.program import Result, at_least, at_most, options, row, run

COUNTS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24)
QUICK_COUNTS = (0, 2, 8)
QUICK = ("compute", "jpeg", "latency", "tiny")
GAINS = 1.1  # of the rate as written: less is no gain to take a share of
NEAR = 0.97  # of the fastest count's rate: as good, by what two equal runs differ
SEARCHED = 0.25  # of the seconds: how long each fixed count is run
STEADY = 1 / 3  # of a run: its last part


def fixed_rates(kind: str, seconds: float, counts: tuple[int, ...]) -> dict[int, float]:
    """Steps per second of each fixed count, without its first quarter."""
    rates = {}
    for count in counts:
        rates[count] = train(kind, seconds, count).rate_after(seconds / 4)
        print(f"{kind}: {count} workers {rates[count]:.2f}/s", file=sys.stderr)
    return rates


def figures(kind: str, seconds: float, counts: tuple[int, ...]) -> dict[str, Any]:
    """Everything about one training."""
    rates = fixed_rates(kind, seconds * SEARCHED, counts)
    best = min(count for count in rates if rates[count] >= NEAR * max(rates.values()))
    written = train(kind, seconds)
    tuned = train(kind, seconds, tuned=True)
    perfect = train(kind, seconds, best)
    print(f"{kind}: tuned {len(tuned.done_s)} steps, {_settled(tuned)}", file=sys.stderr)
    return {
        "rates": rates,
        "best": best,
        "steps": {name: one.steps(seconds) for name, one in _named(written, tuned, perfect)},
        "after": {
            name: one.rate_after((1 - STEADY) * seconds)
            for name, one in _named(written, tuned, perfect)
        },
        "settled": _settled(tuned),
        "search": _search(tuned),
        **_scores(rates, written, tuned, perfect, elsewhere=best != KINDS[kind].workers),
    }


def _named(*runs: Trained) -> list[tuple[str, Trained]]:
    return list(zip(("written", "tuned", "perfect"), runs, strict=True))


def _search(tuned: Trained) -> dict[str, Any] | None:
    """Search of the loader with the most samples; None: that loader was left alone."""
    busiest = max(tuned.loaders, key=lambda one: sum(phase["samples"] for phase in one["phases"]))
    search: dict[str, Any] | None = busiest.get("tuned")
    return search


def _settled(tuned: Trained) -> list[dict[str, Any]]:
    return [loader.get("tuned") or {} for loader in tuned.loaders]


def _scores(
    rates: dict[int, float], written: Trained, tuned: Trained, perfect: Trained, *, elsewhere: bool
) -> dict[str, float | None]:
    """Of the best rate, of a perfect start's gain (None: not elsewhere, or none), of as written."""
    seconds = min(one.done_s[-1] for one in (written, tuned, perfect))
    steps = {name: one.steps(seconds) for name, one in _named(written, tuned, perfect)}
    last = (1 - STEADY) * seconds
    best = max(perfect.rate_after(last), written.rate_after(last))
    gain = steps["perfect"] / steps["written"]
    shares = (steps["tuned"] - steps["written"]) / max(1, steps["perfect"] - steps["written"])
    return {
        "of_best": tuned.rate_after(last) / best,
        "of_gain": shares if gain >= GAINS and elsewhere else None,
        "of_written": steps["tuned"] / steps["written"],
        "end_of_written": tuned.rate_after(last) / written.rate_after(last),
        **{f"{name}_of_best": rate / max(rates.values()) for name, rate in _thumbs(rates)},
    }


def _thumbs(rates: dict[int, float]) -> list[tuple[str, float]]:
    """Rates by rules of thumb: the nearest count that was run."""
    cores = len(os.sched_getaffinity(0))
    rules = {"lightning": cores, "pytorch": 4, "many": 2 * cores}
    return [
        (name, rates[min(rates, key=lambda one: abs(one - count))]) for name, count in rules.items()
    ]


def result(args: argparse.Namespace) -> Result:
    """All trainings, and what is wanted of them."""
    names = args.only or (QUICK if args.quick else list(KINDS))
    seconds = args.seconds or (16.0 if args.quick else 60.0)
    counts = QUICK_COUNTS if args.quick else COUNTS
    every = {name: figures(name, seconds, counts) for name in names}
    return {"bench": "autotune", "figures": every, "wanted": wanted(every)}


def wanted(every: dict[str, dict[str, Any]]) -> list[Result]:
    """The issue's targets, worst training first."""
    healthy = {name: one for name, one in every.items() if KINDS[name].healthy}
    gains = {name: one["of_gain"] for name, one in every.items() if one["of_gain"] is not None}
    rows = [
        _worst("rate after settling, of the best fixed count's", every, "of_best", 0.95),
        _worst("rate at the end, of as written", every, "end_of_written", 0.99),
    ]
    if healthy:
        rows.append(
            _worst("steps of healthy trainings, of as written", healthy, "of_written", 0.99)
        )
    if gains:
        name = min(gains, key=lambda one: gains[one])
        rows.append(at_least(f"gain, of a perfect start's (worst: {name})", 0.9, gains[name]))
        rows.append(at_least("gain, of a perfect start's (median)", 0.9, median(gains.values())))
    return [*rows, *_settling(every)]


def _settling(every: dict[str, dict[str, Any]]) -> list[Result]:
    """Of searches that began; one that never ended misses, however soon the others did."""
    late = {name: one["search"]["settled_s"] for name, one in every.items() if one["search"]}
    if never := [name for name, seconds in late.items() if seconds is None]:
        return [row(f"seconds until settled ({', '.join(never)}: never)", "<= 20", None, met=False)]
    slowest = max(late, key=lambda one: late[one], default=None)
    if slowest is None:
        return []
    return [at_most(f"seconds until settled (worst: {slowest})", 20, late[slowest])]


def _worst(what: str, every: dict[str, dict[str, Any]], key: str, least: float) -> Result:
    name = min(every, key=lambda one: every[one][key])
    got = every[name][key]
    return row(f"{what} (worst: {name})", f">= {least:g}", got, met=got >= least)


def show(measured: Result) -> None:
    """One line for each training."""
    for name, one in measured["figures"].items():
        gain = "-" if one["of_gain"] is None else f"{one['of_gain']:.2f}"
        print(
            f"{name:14} best {one['best']:2} of_best {one['of_best']:.3f} of_gain {gain} "
            f"of_written {one['of_written']:.3f} settled {one['settled']}"
        )


def main() -> None:
    """Measure and print."""
    parser = options(__doc__, quick="four trainings of 16 s and three fixed counts")
    parser.add_argument("--only", action="append", choices=list(KINDS), help="may be repeated")
    parser.add_argument("--seconds", type=float, help="of each run (60; quick: 16)")
    run(parser, result, show)


if __name__ == "__main__":
    main()
