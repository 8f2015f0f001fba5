"""Which runs an estimate rests on, what it takes from them, and its width by the formula."""

from dataclasses import replace
from math import exp, inf, log, log2, sqrt

import pytest

from slurm_ext.core.records import Level, LoaderRun, Shape
from slurm_ext.core.stats import NORMAL_90
from slurm_ext.model.throughput.curve.costs import RECEIVE_S, SLICE_S
from slurm_ext.model.throughput.estimate import (
    ENOUGH_RUNS,
    MOST_RUNS,
    WIDEST_LOG_SD,
    Estimate,
    Prior,
    estimate,
)
from slurm_ext.model.throughput.inversion import LogNormal, invert
from slurm_ext.model.throughput.receiving import UNSEEN
from slurm_ext.model.throughput.shape_predictor import core_predictor, point_at, predict
from slurm_ext.model.throughput.spread import (
    BALANCE_SD,
    CONTENTION_SD,
    FRACTION_SD,
    MODEL_SD,
    PER_CORE_DOUBLING_SD,
    PER_DOUBLING_SD,
    SERIAL_SD,
)

RUN = LoaderRun(
    samples_per_s=97.0,
    workers=2,
    cores=4.0,
    batch_size=32,
    accel_samples_per_s=400.0,
    fetch_wall_s=0.02,
    fetch_cpu_s=0.018,
    main_cpu_s=0.0001,
    emulated=True,
    fetch_queued_s=0.0,
    step_queued_s=0.0,
    main_queued_s=0.0001,
    sample_bytes=150_000,
)


def runs(count: int, first: int = 0) -> list[LoaderRun]:
    """Different runs of the same training."""
    return [replace(RUN, samples_per_s=97.0 - at / 10) for at in range(first, first + count)]


def known(evidence: dict[Level, list[LoaderRun]], prior: Prior | None = None) -> Estimate:
    """The estimate, which has to be there."""
    answer = estimate(evidence, prior)
    assert answer is not None
    return answer


def test_farther_levels_are_used_while_runs_are_few() -> None:
    """Four on one level are enough: farther ones change nothing; three are not."""
    far = [replace(RUN, fetch_wall_s=0.03, samples_per_s=64.0)]
    near = runs(ENOUGH_RUNS)
    alone = known({Level.SCRIPT_ARGS: near})
    assert known({Level.SCRIPT_ARGS: near, Level.SCRIPT: far}) == alone
    few = known({Level.SCRIPT_ARGS: near[:-1], Level.SCRIPT: far})
    assert few.wall.log_mean > known({Level.SCRIPT_ARGS: near[:-1]}).wall.log_mean
    assert (few.level, few.runs) == (Level.SCRIPT_ARGS, ENOUGH_RUNS - 1)


def test_a_run_counts_once_and_old_ones_do_not() -> None:
    """On its nearest level; the newest MOST_RUNS are used, all usable ones are reported."""
    three = runs(3)
    both = {Level.SCRIPT_ARGS: three, Level.SCRIPT: three}
    assert known(both) == known({Level.SCRIPT_ARGS: three})
    many = {Level.SCRIPT: runs(MOST_RUNS + 3)}
    assert known(many).runs == MOST_RUNS + 3
    assert known(many).wall == known({Level.SCRIPT: runs(MOST_RUNS)}).wall
    broken = [replace(RUN, samples_per_s=0.0), *runs(2)]
    assert known({Level.SCRIPT: broken}).runs == 2


def test_the_cluster_alone_is_no_estimate_and_a_prior_is() -> None:
    """A prior has learned from the cluster's runs: they do not count again."""
    cluster = {Level.CLUSTER: runs(5)}
    prior = Prior(accel=LogNormal(6.0, 0.1), wall=LogNormal(-4.0, 0.2), cpu=LogNormal(-4.1, 0.2))
    assert estimate(cluster) is None
    answer = known(cluster, prior)
    assert (answer.accel, answer.wall, answer.cpu) == (prior.accel, prior.wall, prior.cpu)
    assert (answer.level, answer.runs, answer.seen) == (Level.CLUSTER, 0, ())
    assert (answer.slice_s, answer.epoch_samples) == (SLICE_S, inf)


@pytest.mark.parametrize("name", ["accel", "wall"])
def test_a_vague_estimate_is_none(name: str) -> None:
    """Wider than WIDEST_LOG_SD in the accelerator's rate or a fetch; CPU costs may be vague."""
    sure = Prior(accel=LogNormal(6.0, 0.1), wall=LogNormal(-4.0, 0.1), cpu=LogNormal(-4.0, 9.0))
    at_limit, beyond = LogNormal(1.0, WIDEST_LOG_SD), LogNormal(1.0, WIDEST_LOG_SD + 1e-6)
    assert estimate({}, replace(sure, **{name: at_limit})) is not None
    assert estimate({}, replace(sure, **{name: beyond})) is None


def test_facts_are_taken_from_the_nearest_runs() -> None:
    """Means of costs, the newest batch and epoch, the largest worker."""
    two = [
        replace(RUN, worker_rss_bytes=5, epoch_samples=900.0, batch_size=16, bytes_per_sample=3.0),
        replace(RUN, worker_rss_bytes=7, workers=3, main_cpu_s=0.0003, emulated=False),
    ]
    answer = known({Level.SCRIPT: two})
    assert (answer.worker_rss_bytes, answer.batch_size, answer.epoch_samples) == (7, 16, 900.0)
    assert answer.main_cpu_s == pytest.approx(0.0002)
    assert [invert(run).receive_s for run in two] == [None, None]
    assert (answer.receive_s, answer.receive_sd) == (RECEIVE_S, UNSEEN.log_sd)
    serial = known({Level.SCRIPT: [replace(RUN, workers=0, samples_per_s=44.0)]})
    assert (serial.receive_s, serial.receive_sd) == (exp(UNSEEN.log_mean), UNSEEN.log_sd)
    idle = [replace(RUN, workers=12, cores=12.0, samples_per_s=rate) for rate in (390.0, 395.0)]
    seen, received = known({Level.SCRIPT: idle}), [invert(run).receive_s or 0.0 for run in idle]
    assert seen.receive_s == pytest.approx(sum(received) / 2)
    assert seen.receive_sd == 0.0
    assert answer.bytes_per_sample == 3.0
    assert set(answer.seen) == {(2, 4.0), (3, 4.0)}
    assert answer.emulated
    assert known({Level.SCRIPT: runs(1)}).worker_rss_bytes is None


@pytest.mark.parametrize(
    ("workers", "cores"), [(2, 4.0), (8, 4.0), (2, 1.0), (0, 4.0), (1, 0.5), (16, 16.0)]
)
@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_the_interval_is_its_formula(workers: int, cores: float, factor: float) -> None:
    """Each parameter as far as its ceiling binds, and the distance to the nearest run."""
    answer = known({Level.SCRIPT_ARGS: runs(1)})
    point = point_at(answer, workers, cores)
    away = PER_DOUBLING_SD * abs(log2(max(1, workers) / 2))
    away += PER_CORE_DOUBLING_SD * abs(log2(cores / 4))
    away += SERIAL_SD * (workers == 0) + FRACTION_SD * (cores < 1)
    data = 1 - point.accelerator
    a_batch_s = RUN.batch_size / point.samples_per_s
    received = point.accelerator * RECEIVE_S / a_batch_s if workers else 0.0
    sd = sqrt(
        MODEL_SD**2
        + (point.accelerator * answer.accel.log_sd) ** 2
        + (point.wall * answer.wall.log_sd) ** 2
        + (point.cpu * answer.cpu.log_sd) ** 2
        + (data * answer.efficiency.log_sd) ** 2
        + (data * away) ** 2
        + (4 * point.accelerator * data * BALANCE_SD) ** 2
        + (point.contention * CONTENTION_SD) ** 2
        + (received * UNSEEN.log_sd) ** 2
    )
    answered = core_predictor(answer, factor=factor)(cores, workers)
    assert answered.samples_per_s == point.samples_per_s
    reach = NORMAL_90 * factor * sd
    assert answered.interval.low == pytest.approx(point.samples_per_s * exp(-reach))
    assert answered.interval.high == pytest.approx(point.samples_per_s * exp(reach))
    assert answered.shape.cpus_per_task == max(1, cores)


def test_the_nearest_run_counts_for_the_distance() -> None:
    """A run at the very shape makes its interval the narrowest."""
    one = known({Level.SCRIPT_ARGS: runs(1)})
    both = replace(one, seen=((2, 4.0), (16, 4.0)))
    shape = Shape(cpus_per_task=4, num_workers=16)
    widths = [
        log(predict(e, shape).interval.high / predict(e, shape).samples_per_s) for e in (one, both)
    ]
    assert widths[1] < widths[0]
    assert predict(one, shape, node_cores=2) == replace(
        predict(one, Shape(cpus_per_task=2, num_workers=16)), shape=shape
    )
