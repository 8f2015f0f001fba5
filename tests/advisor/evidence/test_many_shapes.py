"""Predictions of many shapes at once: what each of them is by itself."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.advisor.evidence.whole_run import WholeRun, WholeRunPredictor
from slurm_ext.core.records import Level, LoaderRun, Shape
from slurm_ext.model.throughput.estimate import estimate
from slurm_ext.model.throughput.shape_predictor import ShapePredictor
from tests.builders import STARVED

CPUS, WORKERS = (1, 2, 3, 8, 20), (1, 2, 7, 16, 64, 80)
WHOLE = (WholeRun(), WholeRun(beside_s=0.001, start_s=0.0005, per_task=2), WholeRun(start_s=0.01))
RUNS = (
    STARVED,
    replace(STARVED, workers=0, cores=0.5, epoch_samples=500.0),
    replace(STARVED, workers=6, cores=6.0, on_cpu=1, threads=4, main_cpu_s=0.004, emulated=False),
    replace(STARVED, batch_size=1.0, bytes_per_sample=1e5, sample_bytes=1e6),
)


def crowded(run: LoaderRun) -> LoaderRun:
    """The run as others on its cores left it."""
    slow = 4 * run.fetch_wall_s
    return replace(
        run,
        samples_per_s=run.samples_per_s / 4,
        fetch_wall_s=slow,
        fetch_queued_s=0.7 * slow,
        step_queued_s=0.0,
        main_queued_s=0.0,
    )


@pytest.mark.parametrize("whole", WHOLE, ids=str)
@given(st.sampled_from(RUNS), st.booleans(), st.booleans(), st.sampled_from((None, 6)))
def test_many_at_once_are_told_as_each_by_itself(
    whole: WholeRun, run: LoaderRun, met_others: bool, two: bool, node_cores: int | None
) -> None:
    """Rates and lower bounds, crowded or not, of a step on CPUs or not, with more than one run."""
    runs = [crowded(run) if met_others else run, *([RUNS[0]] if two else [])]
    known = estimate({Level.SCRIPT_ARGS: runs})
    if known is None:
        return
    steady = ShapePredictor(known, node_cores=node_cores, factor=1.2, processes=whole.per_task)
    predict = WholeRunPredictor(steady, whole)
    rows = predict.rows(CPUS, WORKERS)
    for cpus, (at, workers) in product(CPUS, enumerate(WORKERS)):
        one = predict(Shape(cpus_per_task=cpus, num_workers=workers))
        rates, lows = rows[cpus]
        assert (rates[at], lows[at]) == pytest.approx((one.samples_per_s, one.interval.low))
