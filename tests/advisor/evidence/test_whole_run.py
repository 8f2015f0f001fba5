"""Predictions of the whole run: what earlier runs took beside their steady batches."""

import pytest

from slurm_ext.advisor.evidence.whole_run import START_S, WholeRun, whole_run_of
from slurm_ext.core.records import Interval, Level, LoaderRun, Prediction, Shape


def a_run(**fields: float | None) -> LoaderRun:
    """Two ranks of 100 samples/s each in epochs of 200 samples, with two workers."""
    known = {"samples_per_s": 100.0, "workers": 2, "cores": 2.0, "batch_size": 10.0}
    known |= {"accel_samples_per_s": 200.0, "fetch_wall_s": 0.01, "fetch_cpu_s": 0.01}
    more = {"ranks": 2, "epoch_samples": 200.0, "whole_samples_per_s": 125.0, "startup_s": 0.4}
    return LoaderRun(**{**known, **more, **fields})  # type: ignore[arg-type] # each of its type


def steady(rate: float, workers: int) -> Prediction:
    """The curve's prediction."""
    return Prediction(
        shape=Shape(cpus_per_task=2, num_workers=workers),
        samples_per_s=rate,
        interval=Interval(rate / 2, rate * 2),
        bottleneck="data",
        level=Level.SCRIPT,
        runs=1,
    )


def test_a_run_as_before_is_predicted_as_it_was() -> None:
    """Whole rate for whole rate: 62.5 of each rank, where 100 were steady."""
    whole = whole_run_of([a_run()])
    assert whole.ranks == 2
    told = whole.of(steady(100, 2))
    assert told.samples_per_s == pytest.approx(62.5)
    assert told.interval.low < told.samples_per_s < told.interval.high


def test_more_workers_take_longer_to_start_and_the_warm_up_stays() -> None:
    """0.2 s for each worker of a pass; a training twice as fast is not twice as fast in all."""
    whole = whole_run_of([a_run()])
    assert whole.start_s == pytest.approx(0.001)
    assert whole.beside_s == pytest.approx(2 / 125 - 0.01 - 0.002)
    assert whole.of(steady(200, 4)).samples_per_s == pytest.approx(1 / (0.005 + 0.004 + 0.004))


def test_a_job_that_started_none_pays_for_workers_as_others_do() -> None:
    """From no workers to some: the usual cost of a start, on every pass."""
    whole = whole_run_of([a_run(workers=0, startup_s=None, whole_samples_per_s=200.0)])
    assert whole.start_s == pytest.approx(START_S / 200)
    assert whole.of(steady(100, 0)) == steady(100, 0)


@pytest.mark.parametrize(
    "fields", [{"whole_samples_per_s": None}, {"doubt": 4}, {"ranks": None}], ids=str
)
def test_runs_that_do_not_tell_change_nothing(fields: dict[str, float | None]) -> None:
    """Those of before, and those that teach nothing."""
    whole = whole_run_of([a_run(**fields)])
    assert whole.of(steady(100, 2)) == steady(100, 2)
    assert whole_run_of([]) == WholeRun()
