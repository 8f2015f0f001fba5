"""Pairs of loads on one GPU: in turns, under MPS, and under MPS with half the GPU each.

A speed is the kernels a second beside the other by those of the load alone, on the whole GPU and
without MPS. The product's bound is asked with what it may know: nothing (`prior`), every pair but
this one (`completed`), and this pair's first repeat (`pair`, judged by the later ones).
"""

from collections.abc import Iterator, Mapping
from itertools import combinations_with_replacement
from statistics import fmean

from contrib.bench.gpu.here import Here
from contrib.bench.gpu.loads import Load, loads
from contrib.bench.gpu.mps_jobs import MpsJobs
from contrib.bench.gpu.report import AbsentError, Report, repeats, within
from contrib.bench.gpu.rows import pair_bounds
from contrib.bench.gpu.rows.pair_bounds import Speeds

KINDS = {"compute": ("compute", 0.0), "copy": ("copy", 0.0), "small": ("small", 0.0)}
KINDS |= {"gaps": ("compute", 0.005)}  # a load's kind, and its idle seconds after each round
SPAN_S = (0.2, 0.4)
START_S = 9.0  # of a mode's two processes
LEAST = 3  # repeats
SPANS = len(KINDS) * (len(KINDS) + 3) // 2  # of a repeat: each alone, and each pair
MODES = {"turns": None, "mps": 100.0, "mps_half": 50.0}  # percent of the threads; None: no MPS
Environment = Mapping[str, str]


def measure(here: Here, report: Report) -> None:
    """Each mode with processes of its own; those of MPS are left out where it does not start."""
    here.needs_device()
    alone: dict[str, float] = {}
    for mode, percent in MODES.items():
        try:
            for env in _environments(here, percent):
                speeds = _mode(here, report, mode, env, alone)
                pair_bounds.judge(report, mode, speeds, here)
        except AbsentError as error:
            report.lacks(mode, str(error))


def _environments(here: Here, percent: float | None) -> Iterator[Environment]:
    if percent is None:
        yield {}
        return
    if here.device != "cuda":
        raise AbsentError("the device is the CPU")
    with MpsJobs(here) as jobs:
        yield jobs.start(1, percent)
        jobs.end(1)


def _mode(
    here: Here, report: Report, mode: str, env: Environment, alone: dict[str, float]
) -> list[Speeds]:
    """Speeds of every pair, repeat by repeat; the first mode's loads alone are the baseline."""
    found: list[Speeds] = []
    span_s = _span_s(here.seconds)
    with loads(here, 2, {what for what, _ in KINDS.values()}, env) as (one, other):
        for _ in repeats(0.6 * here.seconds / len(MODES), least=LEAST):
            rates = {kind: _rate(one, kind, span_s) for kind in KINDS}
            for kind, rate in rates.items():
                if mode == "turns":
                    report.add(f"alone_{kind}", rate, "kernels/s")
                    alone[kind] = max(rate, alone.get(kind, 0.0))
                else:
                    report.add(f"{mode}_alone_{kind}", rate / alone[kind])
            speeds = dict(_speeds(one, other, alone, span_s))
            _tell(report, mode, speeds)
            found.append(speeds)
    return found


def _span_s(seconds: float) -> float:
    """Seconds of one load, where every mode has its start and its repeats."""
    return within(SPAN_S, (seconds / len(MODES) - START_S) / (LEAST * SPANS))


def _rate(load: Load, kind: str, span_s: float) -> float:
    _begin(load, kind, span_s)
    return load.end().rate


def _begin(load: Load, kind: str, span_s: float) -> None:
    what, gap_s = KINDS[kind]
    load.begin(what, span_s, gap_s=gap_s)


def _speeds(
    one: Load, other: Load, alone: Mapping[str, float], span_s: float
) -> Iterator[tuple[tuple[str, str], float]]:
    """Speed of each load beside each; of two alike, their mean."""
    for a, b in combinations_with_replacement(KINDS, 2):
        _begin(one, a, span_s)
        _begin(other, b, span_s)
        first, second = one.end().rate / alone[a], other.end().rate / alone[b]
        if a == b:
            yield (a, b), fmean((first, second))
        else:
            yield (a, b), first
            yield (b, a), second


def _tell(report: Report, mode: str, speeds: Speeds) -> None:
    for (job, beside), speed in speeds.items():
        report.add(f"{mode}_{job}_beside_{beside}", speed)
    both = [speeds[a, b] + speeds[b, a] for a, b in combinations_with_replacement(KINDS, 2)]
    report.add(f"{mode}_work_of_a_pair", fmean(both))
    report.add(f"{mode}_slowest", min(speeds.values()))
