"""Throughput over GPUs, nodes and batch: physics, few points, many points, hostile points."""

from collections.abc import Sequence
from math import inf, log, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.core.errors import InputError
from slurm_ext.model.scaling.model import ScalingMeasurement, TrainingConfig, fit
from slurm_ext.model.scaling.terms import TERMS, columns, log_step, slopes

# 0.1 s a step at batch 32, a quarter of it fixed; network: 0.02 s in a node, 0.05 over two.
TRUE = np.array((log(0.1), -1.1, 0.03, log(0.2), 0.4, log(0.5), 0.3, 0.3, 0.1, 0.0, 0.0))
BATCH0 = log(32)
GRID = [
    TrainingConfig(gpus=gpus, nodes=nodes, local_batch=batch)
    for gpus, nodes in ((1, 1), (2, 1), (4, 1), (2, 2), (4, 2), (8, 2), (4, 4), (16, 4))
    for batch in (32.0, 64.0, 128.0)
]
FEW = [GRID[place] for place in (0, 2, 7, 9, 17, 22)]


def truth(configs: Sequence[TrainingConfig]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Samples/s of the true terms."""
    at = columns(configs)
    return np.asarray(np.exp(np.log(at[:, 1]) + at[:, 0] - log_step(TRUE, at, BATCH0)))


def measured(configs: Sequence[TrainingConfig], factor: float = 1.0) -> list[ScalingMeasurement]:
    """What the true terms give there."""
    rates = truth(configs) * factor
    return [
        ScalingMeasurement(config=c, samples_per_s=float(rate))
        for c, rate in zip(configs, rates, strict=True)
    ]


def errors(seen: Sequence[ScalingMeasurement]) -> float:
    """Median relative error over the whole grid."""
    told, _, _ = fit(seen).rates(GRID)
    return float(np.median(np.abs(told / truth(GRID) - 1)))


@given(st.lists(st.floats(-2, 2), min_size=len(TERMS), max_size=len(TERMS)))
def test_slopes_are_the_terms_own(terms: list[float]) -> None:
    """The fit's slopes are those of the formula, whatever the terms."""
    at, here = columns(GRID), np.array(terms)
    for place in range(len(TERMS)):
        nudge = np.zeros(len(TERMS))
        nudge[place] = 1e-5
        rise = log_step(here + nudge, at, BATCH0) - log_step(here - nudge, at, BATCH0)
        assert slopes(here, at, BATCH0)[:, place] == pytest.approx(rise / 2e-5, abs=1e-4)


def test_six_points_give_the_known_surface_back() -> None:
    """From six points of a surface that obeys the terms, the other 18 are right to 6 %."""
    assert errors(measured(FEW)) < 0.06


def test_more_points_are_better_and_surer() -> None:
    """Twelve points err less than two, and the interval narrows with every handful."""
    asked = TrainingConfig(gpus=16, nodes=4, local_batch=64.0)
    several = [measured(GRID[::step]) for step in (12, 4, 2)]
    assert errors(several[2]) < errors(several[0])
    widths = [log(i.high / i.low) for i in (fit(seen).rate(asked)[1] for seen in several)]
    assert widths[0] > widths[1] > widths[2]


@pytest.mark.parametrize("place", [0, 10, 23])
def test_one_point_is_enough_to_answer(place: int) -> None:
    """One measurement is given back nearly as it was, and its interval holds the whole grid."""
    seen = measured([GRID[place]])
    fitted = fit(seen)
    rate, interval = fitted.rate(GRID[place])
    assert rate == pytest.approx(seen[0].samples_per_s, rel=0.1)
    assert interval.low < rate < interval.high
    _, low, high = fitted.rates(GRID)
    assert ((low < truth(GRID)) & (truth(GRID) < high)).mean() > 0.9


@settings(deadline=None, max_examples=20)
@given(st.floats(1e-3, 1e6), st.floats(1e-2, 1e4))
def test_units_do_not_matter(faster: float, larger: float) -> None:
    """A training that is faster, or counts its batch otherwise, scales in the same way."""
    seen = measured(FEW)
    other = [
        ScalingMeasurement(
            config=TrainingConfig(
                gpus=one.config.gpus,
                nodes=one.config.nodes,
                local_batch=one.config.local_batch * larger,
            ),
            samples_per_s=one.samples_per_s * faster * larger,
        )
        for one in seen
    ]
    asked = TrainingConfig(gpus=16, nodes=4, local_batch=64.0)
    scaled = TrainingConfig(gpus=16, nodes=4, local_batch=64.0 * larger)
    here, there = fit(seen).rate(asked)[0], fit(other).rate(scaled)[0]
    assert there == pytest.approx(here * faster * larger, rel=1e-2)


def test_steps_never_shrink_with_the_batch() -> None:
    """A larger batch takes longer a step, and gives more samples/s, where that was measured."""
    fitted = fit(measured(FEW))
    rates, _, _ = fitted.rates(
        [TrainingConfig(gpus=4, nodes=1, local_batch=2.0**n) for n in range(4, 9)]
    )
    steps = [4 * 2.0**n / rate for n, rate in zip(range(4, 9), rates, strict=True)]
    assert list(rates) == sorted(rates)
    assert steps == sorted(steps)


def test_shares_add_up_and_one_gpu_has_no_network() -> None:
    """The network's part grows with nodes and is nothing on one GPU."""
    fitted = fit(measured(FEW))
    one, node, several = (
        fitted.shares(TrainingConfig(gpus=gpus, nodes=nodes, local_batch=32.0))
        for gpus, nodes in ((1, 1), (4, 1), (16, 4))
    )
    assert one.network == 0
    assert 0 < node.network < several.network < 1
    assert several.compute + several.network == pytest.approx(1)


def test_uneven_nodes_count_by_the_fullest() -> None:
    """A placement is not its mean: 4 and 1 GPUs share links as 4 do; its order says nothing."""
    fitted = fit(measured(FEW))
    uneven, turned, even = (
        fitted.rate(TrainingConfig(gpus=5, nodes=2, local_batch=64.0, placement=placement))[0]
        for placement in ((4, 1), (1, 4), None)
    )
    assert uneven == turned != even


def test_the_same_config_twice_is_their_middle() -> None:
    """Two measurements of one config that differ are both believed a little."""
    low, high = measured([GRID[0]], 0.9)[0], measured([GRID[0]], 1.1)[0]
    rate, _ = fit([low, high]).rate(GRID[0])
    assert low.samples_per_s < rate < high.samples_per_s


def test_contradictions_widen_the_interval() -> None:
    """Measurements that cannot all be true leave an answer that is finite, and less sure."""
    agreeing = measured([*FEW, *FEW])
    quarrelling = [*measured(FEW), *measured(FEW, 20.0)]
    widths = []
    for seen in (agreeing, quarrelling):
        rate, interval = fit(seen).rate(GRID[5])
        assert 0 < interval.low < rate < interval.high < inf
        widths.append(interval.high / interval.low)
    assert widths[1] > 1.5 * widths[0]


@pytest.mark.parametrize("rate", [0.0, -1.0, nan, inf])
def test_absurd_rates_are_refused(rate: float) -> None:
    """A rate that cannot be is named."""
    with pytest.raises(InputError, match="samples_per_s"):
        fit([ScalingMeasurement(config=GRID[0], samples_per_s=rate)])


@pytest.mark.parametrize(
    "config",
    [
        TrainingConfig(gpus=0, nodes=1, local_batch=1.0),
        TrainingConfig(gpus=1, nodes=2, local_batch=1.0),
        TrainingConfig(gpus=1, nodes=0, local_batch=1.0),
        TrainingConfig(gpus=2, nodes=1, local_batch=0.0),
        TrainingConfig(gpus=2, nodes=1, local_batch=nan),
        TrainingConfig(gpus=3, nodes=2, local_batch=1.0, placement=(2, 2)),
        TrainingConfig(gpus=4, nodes=2, local_batch=1.0, placement=(4, 0)),
    ],
)
def test_absurd_configs_are_refused(config: TrainingConfig) -> None:
    """A config that no job can have is refused, as measured and as asked."""
    with pytest.raises(InputError, match="config"):
        fit([ScalingMeasurement(config=config, samples_per_s=1.0)])
    with pytest.raises(InputError, match="config"):
        fit(measured(FEW)).rate(config)


def test_nothing_measured_is_said() -> None:
    """No measurement, no guess."""
    with pytest.raises(InputError, match="at least one"):
        fit([])
