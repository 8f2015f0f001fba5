"""Curve of a running job, from the curve that came with it and its own last windows."""

from collections.abc import Sequence
from math import exp

from slurm_ext.control.allocator.measure import WorkerBounds
from slurm_ext.core.records import Level, LoaderRun, Prediction
from slurm_ext.model.throughput.estimate import Estimate, Prior, estimate
from slurm_ext.model.throughput.shape_predictor import core_predictor
from slurm_ext.policy.allocator.operating_points import OperatingPoint, operating_points

FEWER = (3, 1)  # newest windows


def fit(curve: Estimate | None, runs: Sequence[LoaderRun]) -> Estimate | None:
    """The job's curve from its windows (newest first), steadied by what came with it.

    Where they contradict each other (a wait for cores can hide what a step took), fewer answer.
    """
    prior = None if curve is None else Prior(accel=curve.accel, wall=curve.wall, cpu=curve.cpu)
    for count in (len(runs), *FEWER):
        live = estimate({Level.SCRIPT_ARGS: list(runs[:count])}, prior) if runs else None
        if live is not None:
            return live
    return curve


def rate_at(curve: Estimate, units: int, workers: int, *, grain_cores: float, ranks: int) -> float:
    """Samples/s of one process with so many units of CPU for the job."""
    return core_predictor(curve)(units * grain_cores / ranks, workers).samples_per_s


def utilisation(curve: Estimate, cores: float, workers: int, *, ranks: int) -> float:
    """The part of so many cores that the job would compute with."""
    rate = core_predictor(curve)(cores / ranks, workers).samples_per_s
    return rate * ranks * (exp(curve.cpu.log_mean) + curve.main_cpu_s) / cores


def baseline(
    curve: Estimate | None, knob: WorkerBounds, share_units: int, *, grain_cores: float, ranks: int
) -> OperatingPoint | None:
    """Operating point of its share with the script's own workers; None without a curve."""
    if curve is None:
        return None
    rate = rate_at(curve, share_units, knob.baseline, grain_cores=grain_cores, ranks=ranks)
    return OperatingPoint(
        units=share_units,
        workers=knob.baseline,
        samples_per_s=rate,
        io_bytes_per_s=rate * curve.bytes_per_sample * ranks,
    )


def points_of(
    curve: Estimate | None,
    knob: WorkerBounds,
    units: int,
    *,
    grain_cores: float,
    ranks: int,
    lends: bool = False,
) -> tuple[OperatingPoint, ...]:
    """One offer for each of 1 to `units` units; empty: nothing is known.

    `lends`: what others leave of these units comes on top of each offer's own. Others are on the
    same cores then, and a worker waits for them: never fewer than the script's own.
    """
    if curve is None:
        return ()
    predicted = core_predictor(curve)

    def predict(cores: float, workers: int) -> Prediction:
        return predicted(cores / ranks, workers)

    return operating_points(
        predict,
        units,
        grain_cores=grain_cores,
        max_workers=knob.most,
        least_workers=max(knob.least, min(knob.baseline, knob.most)) if lends else knob.least,
        lent_units=units if lends else 0,
        bytes_per_sample=curve.bytes_per_sample * ranks,
    )
