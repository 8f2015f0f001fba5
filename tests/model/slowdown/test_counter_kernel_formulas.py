"""Counters as columns and the kernel over them by their formulas, number by number."""

from math import exp, log, nan, sqrt

import numpy as np
import pytest

from slurm_ext.model.slowdown.counter_kernel import (
    CounterKernel,
    KernelBlocks,
    kernel_blocks,
    prior_variances,
    radial_kernel,
)
from slurm_ext.model.slowdown.features import (
    FEWEST_JOBS,
    LEAST_SD,
    MOST_SDS,
    SHRUNK,
    CounterColumn,
    Positions,
    Scale,
    fit_scale,
)


def test_a_column_is_a_number_its_share_or_its_logarithm() -> None:
    """NaN where it was not measured, where the whole is 0, and where no logarithm exists."""
    features = {"a": 6.0, "b": 3.0, "zero": 0.0, "bad": nan, "minus": -2.0}
    assert CounterColumn("a").of(features) == 6.0
    assert CounterColumn("a", per="b").of(features) == 2.0
    assert CounterColumn("a", 1.0).of(features) == log(7.0)
    assert CounterColumn("a", 1.0, "b").of(features) == log(3.0)
    assert CounterColumn("zero").of(features) == 0.0
    assert CounterColumn("zero", 0.5).of(features) == log(0.5)
    assert CounterColumn("minus", 3.0).of(features) == 0.0
    unmeasured = [
        CounterColumn("none"),
        CounterColumn("bad"),
        CounterColumn("a", per="none"),
        CounterColumn("a", per="zero"),
        CounterColumn("minus", 2.0),
    ]
    assert all(np.isnan(column.of(features)) for column in unmeasured)


def test_the_scale_is_the_mean_and_the_sd_of_the_jobs_that_have_the_counter() -> None:
    """The correlation is shrunk by three tenths; absent counters count as the mean."""
    assert (FEWEST_JOBS, SHRUNK, LEAST_SD, MOST_SDS) == (3, 0.3, 1e-3, 3.0)
    columns = [CounterColumn("a"), CounterColumn("b")]
    jobs = [{"a": 1.0, "b": 3.0}, {"a": 2.0, "b": 2.0}, {"a": 3.0, "b": 1.0}, {"a": 2.0}]
    scale = fit_scale(columns, jobs)
    assert scale.columns == tuple(columns)
    assert scale.centre == pytest.approx([2.0, 2.0])
    assert scale.spread == pytest.approx([sqrt(0.5), sqrt(2 / 3)])
    across = 0.7 * -2 / sqrt(0.5 * 2 / 3) / 4
    assert scale.correlation == pytest.approx(np.array([[1.0, across], [across, 1.0]]))


def test_columns_that_say_nothing_are_left_out() -> None:
    """Fewer than three jobs have it, or its sd is a thousandth at most."""
    names = ("three", "two", "flat", "moves")
    jobs: list[dict[str, float]] = [
        {"three": 1.0, "two": 1.0, "flat": 0.0, "moves": 0.0},
        {"three": 2.0, "two": 2.0, "flat": 0.0019, "moves": 0.0021},
        {"three": 3.0, "flat": 0.0, "moves": 0.0},
        {"flat": 0.0019, "moves": 0.0021},
    ]
    scale = fit_scale([CounterColumn(name) for name in names], jobs)
    assert [column.name for column in scale.columns] == ["three", "moves"]
    assert scale.centre == pytest.approx([2.0, 0.00105])


def two_columns(correlation: float) -> Scale:
    """Counters a and b around 10, with sds of 2 and 4."""
    return Scale(
        (CounterColumn("a"), CounterColumn("b")),
        np.array([10.0, 10.0]),
        np.array([2.0, 4.0]),
        np.array([[1.0, correlation], [correlation, 1.0]]),
    )


def test_a_missing_counter_is_predicted_from_the_others() -> None:
    """Its variance is what the correlation leaves; without any counter it is the mean, and 1."""
    rows = [{"a": 14.0, "b": 6.0}, {"a": 14.0}, {}, {"a": 99.0, "b": -99.0}]
    places = two_columns(0.6).place(rows)
    assert len(places) == 4
    assert places.at == pytest.approx(np.array([[2, -1], [2, 1.2], [0, 0], [3, -3]]))
    assert places.variance == pytest.approx(np.array([[0, 0], [0, 0.64], [1, 1], [0, 0]]))
    second = places[[1]]
    assert second.at == pytest.approx(np.array([[-1], [1.2], [0], [-3]]))
    assert second.variance == pytest.approx(np.array([[0], [0.64], [1], [0]]))
    assert two_columns(0.6).place([]).at.shape == (0, 2)


LIKENESS = CounterKernel(
    length=0.5,
    load=0.3,
    slice=0.4,
    both=0.2,
    load_line=0.6,
    slice_line=0.7,
    own_load=0.1,
    own_slice=0.25,
    noise=0.08,
    speed_noise=0.04,
)

ONE = Positions(np.array([[1.0, 2.0]]), np.array([[0.0, 0.5]]))

OTHER = Positions(np.array([[0.5, 1.0]]), np.array([[0.25, 0.0]]))


def test_the_radial_kernel_is_the_expectation_over_uncertain_counters() -> None:
    """The mean of three lengths, and of each a product over columns, with w = length² columns.

    A column: sqrt(w / (w + variances)) exp(-d² / 2(w + variances)).
    """
    expected = 0.0
    for length in (0.25, 0.5, 1.0):
        width = length**2 * 2
        wide = [width + 0.25, width + 0.5]
        one = sqrt(width / wide[0]) * exp(-0.5 * 0.25 / wide[0])
        expected += one * sqrt(width / wide[1]) * exp(-0.5 * 1.0 / wide[1]) / 3
    assert radial_kernel(LIKENESS, ONE, OTHER)[0, 0] == pytest.approx(expected)
    certain = Positions(ONE.at, np.zeros((1, 2)))
    assert radial_kernel(LIKENESS, certain, certain)[0, 0] == 1.0
    empty = Positions(np.zeros((1, 0)), np.zeros((1, 0)))
    assert radial_kernel(LIKENESS, empty, empty)[0, 0] == 1.0


@pytest.mark.parametrize("own", [0.0, 1.0])
def test_load_and_slice_add_for_a_side_and_differ_across_sides(own: float) -> None:
    """Bend, line and the job's own, each by its square."""
    bend = float(radial_kernel(LIKENESS, ONE, OTHER)[0, 0])
    line = (1.0 * 0.5 + 2.0 * 1.0) / 2
    load = 0.09 * bend + 0.36 * line + 0.01 * own
    sliced = 0.16 * bend + 0.49 * line + 0.0625 * own
    blocks = kernel_blocks(LIKENESS, ONE, OTHER, np.array([[own]]))
    assert blocks.straight[0, 0] == pytest.approx(load + sliced)
    assert blocks.crossed[0, 0] == pytest.approx(load - sliced)
    assert (blocks.bend[0, 0], blocks.both) == (pytest.approx(bend), 0.2)


def test_two_pairs_are_compared_side_by_side_and_across() -> None:
    """1 + straight(a,c) + straight(b,d) + crossed(a,d) + crossed(b,c) + both² bend bend."""
    straight = np.array([[1.0, 2.0], [3.0, 5.0]])
    crossed = np.array([[0.1, 0.2], [0.4, 0.8]])
    bend = np.array([[0.5, 0.25], [0.75, 0.125]])
    blocks = KernelBlocks(straight, crossed, bend, 0.3)
    a, b, c, d = np.array([0]), np.array([1]), np.array([0]), np.array([1])
    assert blocks.between((a, b), (c, d))[0, 0] == pytest.approx(
        1.0 + (1.0 + 5.0) + (0.2 + 0.4) + 0.09 * 0.5 * 0.125
    )
    assert blocks.between((a, b), (d, c))[0, 0] == pytest.approx(
        1.0 + (2.0 + 3.0) + (0.1 + 0.8) + 0.09 * 0.25 * 0.75
    )


def test_the_prior_variance_of_a_pair() -> None:
    """Both sides' parts; a job beside itself has what load and slice share twice more."""
    places = Positions(np.array([[1.0, 2.0], [0.5, 1.0]]), np.array([[0.0, 0.5], [0.0, 0.0]]))
    lines = [(1.0 + 4.0 + 0.5) / 2, (0.25 + 1.0) / 2]
    loads = [0.09 + 0.36 * line + 0.01 for line in lines]
    slices = [0.16 + 0.49 * line + 0.0625 for line in lines]
    rows = (np.array([0, 1, 0]), np.array([1, 1, 0]))
    first = 1.0 + loads[0] + slices[0] + loads[1] + slices[1] + 0.04
    second = 1.0 + 2 * (loads[1] + slices[1]) + 2 * (loads[1] - slices[1]) + 0.04
    third = 1.0 + 2 * (loads[0] + slices[0]) + 2 * (loads[0] - slices[0]) + 0.04
    assert prior_variances(LIKENESS, places, rows) == pytest.approx([first, second, third])


@pytest.mark.parametrize(("own_load", "own_slice"), [(0.1, 0.2), (0.3, 0.3)])
def test_the_prior_variance_is_never_too_small(own_load: float, own_slice: float) -> None:
    """Exact for a job beside itself; for two it leaves out what they share, which is below 0.

    That holds for each kernel that a fit tries: slices count no less than loads.
    """
    likeness = CounterKernel(own_load=own_load, own_slice=own_slice)
    places = Positions(np.array([[1.0, -2.0], [0.5, 1.0]]), np.zeros((2, 2)))
    rows = (np.array([0, 1, 1, 0]), np.array([1, 0, 1, 0]))
    blocks = kernel_blocks(likeness, places, places, np.eye(2))
    exact = np.diag(blocks.between(rows, rows))
    shared = 2 * blocks.crossed[0, 1]
    assert shared < 0
    assert prior_variances(likeness, places, rows) == pytest.approx(
        exact - np.array([shared, shared, 0.0, 0.0])
    )
