"""Shapes and predictions of one run, for the loader policy."""

from collections.abc import Callable

from slurm_ext.core.records import (
    Interval,
    Level,
    LoaderRun,
    Prediction,
    Shape,
    ShapeLimits,
)
from slurm_ext.model.throughput.estimate import estimate
from slurm_ext.model.throughput.shape_predictor import predict

NODE = ShapeLimits(max_cpus_per_task=8, node_cores=8)

Predict = Callable[[Shape], Prediction]


def shape(cpus: int, workers: int) -> Shape:
    """Short for a shape."""
    return Shape(cpus_per_task=cpus, num_workers=workers)


def from_run(
    *, accel: float, wall: float, cpu: float, workers: int = 0, cores: float = 2, node: int = 8
) -> Predict:
    """Predictions of the real model from one run of such costs."""
    rate = 1 / (1 / accel + wall) if workers == 0 else min(accel, workers / wall, cores / cpu)
    run = LoaderRun(
        samples_per_s=rate * 0.98,
        workers=workers,
        cores=cores,
        batch_size=32,
        accel_samples_per_s=accel,
        fetch_wall_s=wall,
        fetch_cpu_s=cpu,
        main_cpu_s=0.0,
        emulated=True,
    )
    known = estimate({Level.SCRIPT_ARGS: [run]})
    assert known is not None
    return lambda wanted: predict(known, wanted, node_cores=node)


def low(told: Prediction | None) -> float:
    """The bound that decides."""
    assert told is not None
    return told.interval.low


def mean(told: Prediction | None) -> float:
    """The expectation."""
    assert told is not None
    return told.samples_per_s


def told_by(rates: dict[Shape, tuple[float, float]]) -> Predict:
    """Predictions from a table of shape → (lower bound, expectation)."""

    def answer(wanted: Shape) -> Prediction:
        bound, rate = rates.get(wanted, (1.0, 1.0))
        return Prediction(
            shape=wanted,
            samples_per_s=rate,
            interval=Interval(bound, 2 * rate),
            bottleneck="data",
            level=Level.SCRIPT,
            runs=1,
        )

    return answer
