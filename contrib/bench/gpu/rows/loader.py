"""A loader's gain with real JPEGs and a real model: by fixed counts, by directive, by the tuner.

As written is one worker. Fixed counts are the baselines; ours are the directive (the best fixed
count, told to the job as written) and the tuner, which is told nothing.
"""

import os
from collections.abc import Sequence
from statistics import median

from contrib.bench.gpu.here import Here
from contrib.bench.gpu.report import Report, repeats, within
from contrib.bench.gpu.trainings import Training

WRITTEN = 1
SPAN_S = (0.5, 2.5)
TUNING_S = (2.0, 25.0)  # of one pass, in which the tuner settles
LEAST = 2  # repeats


def measure(here: Here, report: Report) -> None:
    """Fixed counts by turns, then the probe's two ways."""
    here.needs_device()
    counts = counts_of(len(os.sched_getaffinity(0)))
    span_s = within(SPAN_S, 0.4 * here.seconds / (LEAST * (len(counts) + 3)))
    report.facts["worker counts"] = counts
    best = _fixed(here, report, counts, span_s)
    report.facts["best fixed count"] = best
    _directed(here, report, best, span_s)
    _tuned(here, report, span_s)
    _compared(report, best)


def counts_of(cores: int) -> list[int]:
    """Doubling counts below this machine's cores, 32 at most, and all of its cores."""
    return sorted({WRITTEN, *(1 << power for power in range(6) if 1 << power < cores), cores})


def _fixed(here: Here, report: Report, counts: Sequence[int], span_s: float) -> int:
    """The count whose median rate is the highest."""
    rates: dict[int, list[float]] = {count: [] for count in counts}
    with Training(here) as training:
        training.hear()
        report.add("model_alone", training.run(span_s, "ready", 2, way="plain").rate, "samples/s")
        for _ in repeats(0.4 * here.seconds, least=LEAST):
            for count in counts:
                rate = training.run(span_s, "jpeg", count, way="plain").rate
                report.add(f"fixed_{count}", rate, "samples/s")
                rates[count].append(rate)
    return max(counts, key=lambda count: median(rates[count]))


def _directed(here: Here, report: Report, best: int, span_s: float) -> None:
    with Training(here, {"DLQUEUE_NUM_WORKERS": str(best)}) as training:
        training.hear()
        for _ in range(LEAST + 1):
            report.add("directed", training.run(span_s, "jpeg", WRITTEN).rate, "samples/s")
        report.facts["directed"] = _told(training)


def _tuned(here: Here, report: Report, span_s: float) -> None:
    """One long run in which it settles, then runs of which each is a repeat."""
    with Training(here, {"DLQUEUE_AUTOTUNE": "1"}) as training:
        training.hear()
        settling_s = within(TUNING_S, 0.2 * here.seconds)
        first = training.run(settling_s, "jpeg", WRITTEN)
        report.add("while_tuning", first.rate, "samples/s")
        for _ in range(LEAST + 1):
            report.add("tuned", training.run(span_s, "jpeg", WRITTEN).rate, "samples/s")
        report.facts["tuned"] = _told(training)


def _told(training: Training) -> str:
    """The loader's own words in the summary: its method, and the count where it stayed."""
    loader = training.summary()["loaders"][-1]
    why = loader["left_alone"] or loader["fallback"]
    tuned = loader["tuned"] or {}
    words = f"method {loader['method']}, started {loader['started_workers']}"
    if tuned:
        after = tuned.get("settled_s")
        at = tuned.get("workers")
        words += ", not settled" if after is None else f", settled at {at} in {after:.1f} s"
    return words + (f", left alone: {why}" if why else "")


def _compared(report: Report, best: int) -> None:
    """Gains over what was written, and shares of the best fixed count."""
    figures = {name: one["value"] for name, one in report.figures().items()}
    for way in ("directed", "tuned"):
        report.add(f"{way}_gain", figures[way] / figures[f"fixed_{WRITTEN}"])
        report.add(f"{way}_of_best", figures[way] / figures[f"fixed_{best}"])
    report.add("best_of_model_alone", figures[f"fixed_{best}"] / figures["model_alone"])
