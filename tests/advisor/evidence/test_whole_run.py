"""Predictions of the whole run: what earlier runs took beside their steady batches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.advisor.evidence.whole_run import (
    START_FACTOR,
    START_S,
    TRIAL_BATCHES,
    UNSEEN_START_FACTOR,
    WholeRun,
    starts,
    whole_run_of,
)
from slurm_ext.core.records import Interval, Level, LoaderRun, Prediction, Shape
from slurm_ext.probe import lazy_workers

WORKERS, CORES = st.integers(1, 16), st.integers(1, 16)
RATES = st.floats(1, 1e4)


def a_run(**fields: float | None) -> LoaderRun:
    """Two ranks of 100 samples/s each in epochs of 200 samples, with two workers."""
    known = {"samples_per_s": 100.0, "workers": 2, "cores": 2.0, "batch_size": 10.0}
    known |= {"accel_samples_per_s": 200.0, "fetch_wall_s": 0.01, "fetch_cpu_s": 0.01}
    more = {"ranks": 2, "epoch_samples": 200.0, "whole_samples_per_s": 125.0, "startup_s": 0.4}
    return LoaderRun(**{**known, **more, **fields})  # type: ignore[arg-type] # each of its type


def steady(rate: float, workers: int, cores: int = 2) -> Prediction:
    """The curve's prediction."""
    return Prediction(
        shape=Shape(cpus_per_task=cores, num_workers=workers),
        samples_per_s=rate,
        interval=Interval(rate / 2, rate * 2),
        bottleneck="data",
        level=Level.SCRIPT,
        runs=1,
    )


def test_a_run_as_before_is_predicted_as_it_was() -> None:
    """Whole rate for whole rate: 62.5 of each rank, where 100 were steady."""
    whole = whole_run_of([a_run()], tasks=2)
    assert whole.ranks == 2
    told = whole.of(steady(100, 2))
    assert told.samples_per_s == pytest.approx(62.5)
    assert told.interval.low < told.samples_per_s < told.interval.high


def test_more_workers_take_longer_to_start_and_the_warm_up_stays() -> None:
    """0.2 s for each worker of a pass; a training twice as fast is not twice as fast in all."""
    whole = whole_run_of([a_run(cores=4.0)], tasks=2)
    assert whole.start_s == pytest.approx(0.001)
    assert whole.start_factor == START_FACTOR
    assert whole.beside_s == pytest.approx(2 / 125 - 0.01 - 0.002)
    told = whole.of(steady(200, 4, cores=4))
    assert told.samples_per_s == pytest.approx(1 / (0.005 + 0.004 + 0.004))


def test_a_job_that_started_none_pays_for_workers_as_others_do() -> None:
    """From no workers to some: the usual cost of a start, on every pass."""
    whole = whole_run_of([a_run(workers=0, startup_s=None, whole_samples_per_s=200.0)])
    assert whole.start_s == pytest.approx(START_S / 200)
    assert whole.start_factor == UNSEEN_START_FACTOR
    assert whole.of(steady(100, 0)) == steady(100, 0)


def test_a_loader_that_is_given_workers_makes_its_first_batches_without() -> None:
    """Of 800 samples of two ranks, two batches of each; a run that was moved had that, too."""
    assert TRIAL_BATCHES == lazy_workers.TRIAL_BATCHES
    serial = {"user_workers": 0, "run_samples": 800.0}
    run = a_run(workers=0, whole_samples_per_s=200.0, startup_s=None, **serial)
    whole = whole_run_of([run], tasks=2)
    assert whole.trial_s == pytest.approx(2 * 10 * 0.01 * 2 / 800)
    assert whole.of(steady(100, 0)) == steady(100, 0)
    told = whole.of(steady(100, 1, cores=1)).samples_per_s
    assert told == pytest.approx(1 / (0.01 + whole.trial_s + START_S / 200))
    moved = whole_run_of([a_run(**serial)], tasks=2)
    assert moved.of(steady(100, 2)).samples_per_s == pytest.approx(62.5)


def test_a_loader_that_is_given_more_workers_makes_its_first_round_with_its_own() -> None:
    """Twice as many workers start half a batch late; its own are there from the beginning."""
    run = a_run(user_workers=2, run_samples=800.0)
    more = whole_run_of([run], tasks=2)
    assert more.trial_s == pytest.approx(10 * 0.01 * 2 / 800)
    assert more.of(steady(100, 2)).samples_per_s == pytest.approx(62.5)
    assert [more.trial(count) for count in (1, 2, 4)] == [0, 0, more.trial_s / 2]


def test_a_single_worker_makes_its_trial_and_what_was_asked_for_meanwhile() -> None:
    """Its first two fetches are looked at, and it has two batches more to make before others."""
    one = whole_run_of([a_run(user_workers=1, workers=1, run_samples=800.0)], tasks=2)
    assert one.trial_s == pytest.approx(4 * 10 * 0.01 * 2 / 800)
    assert [one.trial(count) for count in (1, 2)] == [0, one.trial_s / 2]


@pytest.mark.parametrize(
    "fields", [{"whole_samples_per_s": None}, {"doubt": 4}, {"ranks": None}], ids=str
)
def test_runs_that_do_not_tell_change_nothing(fields: dict[str, float | None]) -> None:
    """Those of before, and those that teach nothing."""
    whole = whole_run_of([a_run(**fields)])
    assert whole.of(steady(100, 2)) == steady(100, 2)
    assert whole_run_of([]) == WholeRun()


@given(WORKERS, CORES)
def test_fewer_cores_start_no_worker_sooner(workers: int, cores: int) -> None:
    """Nor do more workers; one starts like one anywhere, and with cores for all each takes 1."""
    assert starts(0, cores) == 0
    assert starts(1, cores) == 1
    assert starts(workers + 1, cores) > starts(workers, cores) >= workers
    assert starts(workers, cores) >= starts(workers, cores + 1)
    assert starts(workers, 2 * workers) == workers


def drawn(
    workers: int, cores: int, rate: float, alone_s: float, epoch: float, took: float = 1.0
) -> LoaderRun:
    """A run of one rank: each pass at `rate`, behind the start of its workers."""
    startup_s = alone_s * took * starts(workers, cores)
    whole = epoch / (epoch / rate + startup_s)
    return a_run(
        ranks=1,
        samples_per_s=rate,
        workers=workers,
        cores=float(cores),
        epoch_samples=epoch,
        startup_s=startup_s,
        whole_samples_per_s=whole,
    )


@given(
    st.tuples(WORKERS, CORES, RATES),
    st.tuples(WORKERS, CORES, RATES),
    st.floats(0.005, 0.2),
    st.floats(1, 1e6),
    st.floats(-1, 1),
)
def test_a_short_run_lies_inside_whatever_its_workers_took_to_start(
    before: tuple[int, int, float],
    after: tuple[int, int, float],
    alone_s: float,
    epoch: float,
    luck: float,
) -> None:
    """From any shape to any other: a start longer or shorter than foretold is in the interval.

    The steady rates are as the curve says; all that differs is how long workers took to start.
    """
    whole = whole_run_of([drawn(*before, alone_s, epoch)])
    told = whole.of(steady(after[2], *after[:2]))
    came = drawn(*after, alone_s, epoch).whole_samples_per_s
    assert told.samples_per_s == pytest.approx(came, rel=1e-6)
    took = START_FACTOR**luck
    lucky = drawn(*after, alone_s, epoch, took).whole_samples_per_s
    assert lucky is not None
    assert told.interval.low < lucky < told.interval.high


@given(st.tuples(WORKERS, CORES, RATES), st.floats(0.005, 0.2))
def test_a_long_run_is_its_steady_batches(shape: tuple[int, int, float], alone_s: float) -> None:
    """A start in hours of training neither lowers the rate nor widens the interval."""
    workers, cores, rate = shape
    whole = whole_run_of([drawn(workers, cores, rate, alone_s, rate * 1e5)])
    curve = steady(rate, workers, cores)
    told = whole.of(curve)
    assert told.samples_per_s == pytest.approx(rate, rel=1e-4)
    assert told.interval.low == pytest.approx(curve.interval.low, rel=1e-3)
    assert told.interval.high == pytest.approx(curve.interval.high, rel=1e-3)


def test_ranks_of_one_task_share_its_cores() -> None:
    """As many for each rank as the job has tasks for them: torchrun has one for all."""
    runs = [a_run(ranks=4)]
    assert [whole_run_of(runs, tasks).per_task for tasks in (1, 2, 3, 4, 8)] == [4, 2, 2, 1, 1]
    assert whole_run_of([a_run(ranks=None)]).per_task == 1
    shared, own = whole_run_of(runs), whole_run_of(runs, tasks=4)
    here = shared.of(steady(100, 8, cores=4)).samples_per_s
    assert here == own.of(steady(100, 8, cores=1)).samples_per_s
    assert here < own.of(steady(100, 8, cores=4)).samples_per_s


def test_a_node_has_no_more_cores_than_it_has() -> None:
    """Eight CPUs of a machine with two cores start workers as two do."""
    whole = WholeRun(start_s=0.001)
    few, many = whole.of(steady(100, 8, 2)), whole.of(steady(100, 8, 8), own=2)
    assert few.samples_per_s == many.samples_per_s
