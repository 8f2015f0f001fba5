"""Rules that dlqueue's allocator is compared with, as pure functions.

A rule of thumb gives every job of a node alike (cores, workers); rules that know the jobs' curves
give units of CPU. A curve is the rate at each number of units, in ascending order of units.
"""

from collections.abc import Mapping, Sequence

Share = tuple[float, int]
"""Cores and workers of one job."""

Curve = Mapping[int, float]
"""Rate by units."""

SUBMITIT_CPUS = 10


def even_split(jobs: int, cores: float, node_cpus: int) -> list[Share]:
    """Cores and workers in equal parts, at least one worker each."""
    return [(cores / jobs, max(1, node_cpus // jobs))] * jobs


def pytorch(jobs: int, cores: float, visible_cpus: int) -> list[Share]:
    """As many workers as CPUs are seen: the maximum that DataLoader's own warning suggests.

    torch/utils/data/dataloader.py, `_check_worker_number_rationality`: the CPUs of the process's
    affinity, whatever quota it has.
    """
    return [(cores / jobs, visible_cpus)] * jobs


def lightning(jobs: int, cores: float, visible_cpus: int, processes: int = 1) -> list[Share]:
    """One CPU of each process is left to the training, the others get a worker.

    lightning/fabric/utilities/data.py, `suggested_max_num_workers`, which its warning of a
    bottleneck quotes: max(1, CPUs // processes of the training on this node - 1).
    """
    return [(cores / jobs, max(1, visible_cpus // processes - 1))] * jobs


def submitit(jobs: int, cores: float) -> list[Share]:
    """Ten CPUs and ten workers a GPU, as far as the node has them.

    The launchers written around submitit (`run_with_submitit.py` of DETR, DeiT and their
    descendants) ask for cpus_per_task=10 a GPU, and their trainings have num_workers=10.
    """
    return [(min(SUBMITIT_CPUS, cores / jobs), SUBMITIT_CPUS)] * jobs


def synergy_tune(curves: Sequence[Curve], units: int, share: int) -> list[int]:
    """Synergy's online heuristic on one node (OSDI'22, "Synergy-TUNE"), for CPUs.

    Largest demands first. Each gets its demand (the fewest units of its best rate) if that is
    free, else its share, for which those who have more than theirs are cut back to it.
    """
    demands = [min(curve, key=lambda n: (-curve[n], n)) for curve in curves]
    granted = [0] * len(curves)
    for job in sorted(range(len(curves)), key=lambda one: (-demands[one], one)):
        free = units - sum(granted)
        granted[job] = demands[job] if demands[job] <= free else min(demands[job], share)
        for peer in sorted(range(len(curves)), key=lambda one: (-granted[one], one)):
            if sum(granted) > units and peer != job:
                granted[peer] = min(granted[peer], share)
    return granted


def greedy(curves: Sequence[Curve], units: int, share: int) -> list[int]:
    """Give unit after unit to the job that gains most from the next one.

    Begins with the fewest units at which each has the rate of its share; ends where nobody gains
    from one more.
    """
    granted = [_fewest(curve, share) for curve in curves]
    while sum(granted) < units:
        gains = [_rate(c, n + 1) - _rate(c, n) for c, n in zip(curves, granted, strict=True)]
        job = max(range(len(gains)), key=gains.__getitem__, default=0)
        if not gains or gains[job] <= 0:
            break
        granted[job] += 1
    return granted


def rates(curves: Sequence[Curve], units: Sequence[int]) -> list[float]:
    """Rate of each job with its units."""
    return [_rate(*pair) for pair in zip(curves, units, strict=True)]


def _rate(curve: Curve, units: int) -> float:
    """Between two points of a curve nothing is known but the lower one."""
    return max((rate for n, rate in curve.items() if n <= units), default=0.0)


def _fewest(curve: Curve, share: int) -> int:
    return min(n for n in curve if n <= share and curve[n] >= _rate(curve, share))
