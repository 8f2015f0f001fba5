"""Estimates from runs alike: levels, widths, and when the answer is "I do not know"."""

import subprocess
import sys
from dataclasses import replace
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.core.records import Level, LoaderRun, Prediction, Shape
from slurm_ext.model.throughput.calibration import FEWEST, CalibrationPoint, interval_factor
from slurm_ext.model.throughput.curve.costs import START_S, START_S_PER_WORKER
from slurm_ext.model.throughput.estimate import Estimate, Prior, estimate
from slurm_ext.model.throughput.inversion import LogNormal
from slurm_ext.model.throughput.shape_predictor import core_predictor, predict
from slurm_ext.model.throughput.storage import ceiling
from tests.builders import STARVED as RUN

SHAPE = Shape(cpus_per_task=4, num_workers=4)


def known(*runs: LoaderRun, level: Level = Level.SCRIPT_ARGS) -> Estimate:
    """The estimate from runs of one level, which has to be there."""
    answer = estimate({level: runs})
    assert answer is not None
    return answer


def width(told: Prediction) -> float:
    """The interval's log width."""
    return log(told.interval.high / told.interval.low)


def test_the_run_itself_is_predicted_as_it_was() -> None:
    """Asked for the very shape that ran, the answer is what was measured."""
    told = predict(known(RUN), Shape(cpus_per_task=4, num_workers=1))
    assert told.samples_per_s == pytest.approx(48, rel=0.02)
    assert told.interval.low < 48 < told.interval.high


def test_one_run_with_one_worker_tells_of_four() -> None:
    """Four workers bring about four times as much while cores last."""
    told = predict(known(RUN), SHAPE)
    assert told.samples_per_s == pytest.approx(4 * 48, rel=0.12)
    assert told.bottleneck == "data"
    assert told.level is Level.SCRIPT_ARGS
    assert told.runs == 1


def test_cores_that_the_machine_does_not_have_do_not_count() -> None:
    """Eight CPUs configured on two cores are two cores."""
    eight = Shape(cpus_per_task=8, num_workers=8)
    on_two = predict(known(RUN), eight, node_cores=2)
    assert on_two.samples_per_s < 2 / 0.018
    two = Shape(cpus_per_task=2, num_workers=8)
    assert on_two.samples_per_s == predict(known(RUN), two, node_cores=2).samples_per_s


def test_a_part_of_a_core_brings_its_part() -> None:
    """Cores that a running job may get come in quarters; whole ones are the same as a shape's."""
    told = core_predictor(known(RUN))
    assert told(4.0, 4).samples_per_s == predict(known(RUN), SHAPE).samples_per_s
    assert told(0.5, 4).samples_per_s == pytest.approx(0.5 / 0.0185, rel=0.1)
    rates = [told(quarters / 4, 4).samples_per_s for quarters in range(1, 17)]
    assert rates == sorted(rates)


def test_more_runs_narrow_the_interval() -> None:
    """Six runs that agree say more than one."""
    agreeing = [replace(RUN, samples_per_s=48 + n / 10) for n in range(6)]
    assert width(predict(known(*agreeing), SHAPE)) < width(predict(known(RUN), SHAPE))


def test_runs_that_disagree_widen_the_interval() -> None:
    """A script whose runs differ by a factor is not known as well as its count suggests."""
    scattered = [replace(RUN, fetch_wall_s=0.02 * 1.5**n, fetch_cpu_s=0.01) for n in (-1, 0, 1)]
    steady = [replace(RUN, samples_per_s=48 + n, fetch_cpu_s=0.01) for n in (-1, 0, 1)]
    one = Shape(cpus_per_task=4, num_workers=1)
    assert width(predict(known(*scattered), one)) > width(predict(known(*steady), one))


def test_a_farther_level_is_less_sure() -> None:
    """The same evidence from less similar jobs gives a wider answer."""
    widths = [
        width(predict(known(RUN, level=level), SHAPE))
        for level in (Level.SCRIPT_ARGS, Level.SCRIPT, Level.USER_NAME)
    ]
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]


def test_one_strangers_run_is_not_enough_but_several_that_agree_are() -> None:
    """Jobs that only share their program answer once there are enough of them."""
    assert estimate({Level.KIND: [RUN]}) is None
    assert estimate({Level.KIND: [replace(RUN, samples_per_s=48 + n) for n in range(5)]})


def test_a_farther_shape_is_less_sure() -> None:
    """What is far from every run is told with a wider interval; the accelerator's limit is not."""
    slow_reads = replace(RUN, fetch_cpu_s=0.0001, accel_samples_per_s=100_000)
    widths = [
        width(predict(known(slow_reads), Shape(cpus_per_task=4, num_workers=n))) for n in (1, 4, 16)
    ]
    assert widths[0] < widths[1] < widths[2]


def test_the_nearest_runs_win() -> None:
    """One run of the same arguments outweighs many of the same kind."""
    far = [replace(RUN, accel_samples_per_s=20, samples_per_s=19 + n / 9) for n in range(6)]
    both = estimate({Level.SCRIPT_ARGS: [RUN], Level.KIND: far})
    assert both is not None
    many = Shape(cpus_per_task=4, num_workers=4)
    assert predict(both, many).samples_per_s == pytest.approx(
        predict(known(RUN), many).samples_per_s, rel=0.1
    )


def test_newer_runs_weigh_more() -> None:
    """A script that became twice as costly is predicted nearer to its newest run."""
    old, new = replace(RUN, samples_per_s=47), replace(RUN, fetch_wall_s=0.04, samples_per_s=24)
    assert known(new, old).wall.log_mean > known(old, new).wall.log_mean


def test_a_run_counts_on_its_nearest_level_only() -> None:
    """The same run is also evidence of every farther level; it is not counted twice."""
    everywhere = estimate({level: [RUN] for level in Level})
    assert everywhere == known(RUN)


@pytest.mark.parametrize("evidence", [{}, {Level.SCRIPT: []}, {Level.CLUSTER: [RUN] * 8}])
def test_thin_evidence_is_not_an_answer(evidence: dict[Level, list[LoaderRun]]) -> None:
    """Nothing, or only strangers' jobs: "I do not know", and the job stays as it is."""
    assert estimate(evidence) is None


def test_runs_that_contradict_each_other_are_not_an_answer() -> None:
    """Costs that scatter over orders of magnitude say nothing of the next run."""
    wild = [
        replace(RUN, fetch_wall_s=0.001 * 8**n, fetch_cpu_s=0.001, samples_per_s=40 + n)
        for n in range(4)
    ]
    assert estimate({Level.USER_NAME: wild}) is None


def test_a_sure_prior_answers_for_a_script_never_seen_and_a_vague_one_does_not() -> None:
    """Without a run there is the prior, as long as its own interval says something."""
    sure = Prior(accel=LogNormal(6.0, 0.2), wall=LogNormal(-4.0, 0.2), cpu=LogNormal(-4.5, 0.2))
    vague = Prior(accel=LogNormal(6.0, 2.0), wall=LogNormal(-4.0, 0.2), cpu=LogNormal(-4.5, 0.2))
    answer = estimate({}, sure)
    assert answer is not None
    assert predict(answer, SHAPE).runs == 0
    assert estimate({}, vague) is None
    assert estimate({Level.CLUSTER: [RUN] * 3}, sure) == answer


def test_a_run_outweighs_the_prior() -> None:
    """What the text of a script suggests matters little once it has run."""
    wrong = Prior(accel=LogNormal(1.0, 0.6), wall=LogNormal(0.0, 0.6), cpu=LogNormal(0.0, 0.6))
    both = estimate({Level.SCRIPT_ARGS: [RUN]}, wrong)
    assert both is not None
    assert predict(both, SHAPE).samples_per_s == pytest.approx(
        predict(known(RUN), SHAPE).samples_per_s, rel=0.1
    )


def test_all_runs_of_the_level_are_reported() -> None:
    """The count that people and `policy.min_runs` see is that of the evidence, not a sample."""
    many = [replace(RUN, samples_per_s=48 + n / 100) for n in range(16)]
    assert known(*many).runs == 16


def test_two_runs_show_a_ceiling_of_storage() -> None:
    """Twice the workers for the same rate, with idle cores: storage gives no more."""
    few = replace(RUN, workers=4, samples_per_s=100, fetch_wall_s=0.04, fetch_cpu_s=0.001)
    many = replace(RUN, workers=8, samples_per_s=103, fetch_wall_s=0.078, fetch_cpu_s=0.001)
    assert ceiling([few, many]) == 103
    told = predict(known(many, few), Shape(cpus_per_task=4, num_workers=16))
    assert told.samples_per_s <= 103
    assert told.bottleneck == "storage"


def test_cores_or_the_accelerator_are_not_mistaken_for_storage() -> None:
    """More workers bring nothing either where the CPU or the accelerator is the limit."""
    at_cpu = [replace(RUN, workers=w, samples_per_s=215, fetch_wall_s=w / 215) for w in (4, 8)]
    at_accelerator = [
        replace(RUN, workers=w, samples_per_s=395, fetch_wall_s=0.005, fetch_cpu_s=0.0001)
        for w in (4, 8)
    ]
    assert ceiling(at_cpu) is None
    assert ceiling(at_accelerator) is None


RUNS = st.builds(
    LoaderRun,
    samples_per_s=st.floats(1e-3, 1e5),
    workers=st.integers(0, 64),
    cores=st.floats(0.5, 256),
    batch_size=st.floats(1, 4096),
    accel_samples_per_s=st.floats(1e-3, 1e7),
    fetch_wall_s=st.floats(1e-7, 1e3),
    fetch_cpu_s=st.floats(0, 1e3),
    main_cpu_s=st.none() | st.floats(0, 10),
    emulated=st.booleans(),
)


@given(
    st.dictionaries(st.sampled_from(Level), st.lists(RUNS, max_size=4), max_size=5),
    st.integers(1, 256),
    st.integers(0, 64),
)
def test_any_evidence_gives_a_finite_interval_around_its_mean_or_nothing(
    evidence: dict[Level, list[LoaderRun]], cpus: int, workers: int
) -> None:
    """However odd the runs, no NaN, no infinity, no inverted interval leaves the model."""
    answer = estimate(evidence)
    if answer is None:
        return
    told = predict(answer, Shape(cpus_per_task=cpus, num_workers=workers), node_cores=64)
    assert 0 < told.interval.low <= told.samples_per_s <= told.interval.high < 1e12


def test_the_factor_widens_both_sides() -> None:
    """Calibration stretches the interval and leaves the expectation alone."""
    plain, wide = predict(known(RUN), SHAPE), predict(known(RUN), SHAPE, factor=2.0)
    assert wide.samples_per_s == plain.samples_per_s
    assert width(wide) == pytest.approx(2 * width(plain))


def test_the_factor_covers_nine_in_ten_of_what_came_out() -> None:
    """Outcomes twice as scattered as believed double the interval."""
    misses = [n / 50 for n in range(1, 101)]  # in half widths, evenly up to 2
    outcomes = [CalibrationPoint(1.0, 0.9, 1 / 0.9, (1 / 0.9) ** miss) for miss in misses]
    factor = interval_factor(outcomes)
    assert factor == pytest.approx(1.82)
    assert sum(miss <= factor for miss in misses) >= 90


def test_a_few_outcomes_change_nothing() -> None:
    """Below the minimum, chance would decide."""
    assert interval_factor([CalibrationPoint(1.0, 0.9, 1.1, 9.0)] * (FEWEST - 1)) == 1.0


def test_predicting_needs_no_numpy() -> None:
    """The submit path and `dlqueue predict` start without numpy, torch or sqlite."""
    code = (
        "import sys, slurm_ext.model.throughput.shape_predictor;"
        "import slurm_ext.model.throughput.artifact, slurm_ext.policy.loader;"
        "print([m for m in ('numpy', 'torch', 'sqlite3', 'asyncio') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_other_jobs_loaders_do_not_make_the_own_one_a_mystery() -> None:
    """What loaders lose to their own overheads hardly differs: other jobs do not widen it."""
    alone = estimate({Level.SCRIPT_ARGS: [RUN]})
    others = [replace(RUN, samples_per_s=RUN.samples_per_s * part) for part in (0.5, 0.7, 0.9)]
    among = estimate({Level.SCRIPT_ARGS: [RUN], Level.CLUSTER: [RUN, *others]})
    assert alone is not None
    assert among is not None
    assert among.efficiency.log_sd < 0.3


def test_short_epochs_pay_for_their_first_batch() -> None:
    """An accelerator at its limit waits for each epoch's first batch; busy workers lose nothing."""
    fetch_s, batch, epoch, accel = 0.02, 16, 384, 16 / 0.06
    fill_s = batch * fetch_s
    slow = replace(
        RUN,
        samples_per_s=epoch / (epoch * fetch_s + START_S + START_S_PER_WORKER + batch / accel),
        accel_samples_per_s=accel,
        batch_size=batch,
        fetch_wall_s=fetch_s,
        fetch_cpu_s=0.0002,
        epoch_samples=epoch,
    )
    shape = Shape(cpus_per_task=4, num_workers=8)
    rate = predict(known(slow), shape).samples_per_s
    start_s = START_S + 8 * START_S_PER_WORKER
    assert rate == pytest.approx(epoch / (epoch / accel + start_s + fill_s), rel=0.05)
    endless = predict(known(replace(slow, epoch_samples=None)), shape).samples_per_s
    assert endless > 1.1 * rate


@pytest.mark.parametrize("cores", [1, 2, 4])
@pytest.mark.parametrize("waited", [1.0, 1.02, 1.04])
def test_a_run_on_the_accelerators_limit_is_predicted_as_it_ran(cores: int, waited: float) -> None:
    """What a run showed at its own shape is what is predicted there."""
    run = replace(
        RUN,
        cores=cores,
        samples_per_s=530 / waited,
        accel_samples_per_s=530,
        fetch_wall_s=0.000116,
        fetch_cpu_s=0.000115,
        epoch_samples=2560,
    )
    shape = Shape(cpus_per_task=cores, num_workers=run.workers)
    assert predict(known(run), shape).samples_per_s == pytest.approx(530 / waited, rel=0.04)
