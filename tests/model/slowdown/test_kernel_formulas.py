"""The covariances of slowdowns by their formulas, on two or three jobs, number by number."""

from dataclasses import replace
from math import exp, log, log2, nan, sqrt

import numpy as np
import pytest

from slurm_ext.core.gpu_sharing import CorunMeasurement, RelativeSpeed, SoloProfile, SpeedBasis
from slurm_ext.model.slowdown.completion import PairSpeed, complete
from slurm_ext.model.slowdown.completion_kernel import (
    CompletionKernel,
    JobTraits,
    KernelMatrices,
    Role,
    device_covariance,
    job_similarity,
    kernel_matrices,
    related,
)
from slurm_ext.model.slowdown.counter_kernel import (
    CounterKernel,
    KernelBlocks,
    kernel_blocks,
    prior_variances,
    radial_kernel,
)
from slurm_ext.model.slowdown.counter_model import (
    LEAST_KNOWN,
    CounterJobs,
    CounterModel,
    PairObservations,
    collect_jobs,
    gaps,
    log_odds,
    noise_var,
    same,
    speed_of,
    view,
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
from slurm_ext.model.slowdown.model import (
    KERNELS,
    SlowdownModel,
    measured_pairs,
    slowdown_model,
)

# -- counters as columns -----------------------------------------------------------------------


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


# -- the counter kernel ------------------------------------------------------------------------

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
    """Each column: sqrt(w / (w + variances)) exp(-d² / 2(w + variances)), w = length² columns."""
    width = 0.25 * 2
    wide = [width + 0.25, width + 0.5]
    expected = sqrt(width / wide[0]) * exp(-0.5 * 0.25 / wide[0])
    expected *= sqrt(width / wide[1]) * exp(-0.5 * 1.0 / wide[1])
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


# -- the counter model -------------------------------------------------------------------------


def test_log_odds_are_kept_from_both_ends() -> None:
    """Below 3 % and above 97 % of the top a measured speed says no more."""
    speeds = np.array([0.5, 0.03, 0.01, 0.97 * 1.2, 1.19])
    expected = [log(1.2 / 0.5 - 1), log(39.0), log(39.0), log(1 / 0.97 - 1), log(1 / 0.97 - 1)]
    assert log_odds(speeds, 1.2) == pytest.approx(expected)
    assert speed_of(np.array([0.0, log(3.0)]), 1.2) == pytest.approx([0.6, 0.3])


def test_the_noise_of_a_speed_counts_more_near_the_ends() -> None:
    """(speed noise x top / (s (top - s)))² + noise², with s between 3 % and 97 % of the top."""
    variances = noise_var(LIKENESS, np.array([0.6, 0.3, 0.0, 2.0]), 1.2)
    slopes = [1.2 / 0.36, 1.2 / 0.27, 1.2 / (0.03 * 1.17), 1.2 / (1.164 * 0.036)]
    assert variances == pytest.approx([(0.04 * slope) ** 2 + 0.0064 for slope in slopes])


def test_equal_keys_are_runs_of_one_job_but_not_empty_ones() -> None:
    """A job without a key is like no other, not even like another without."""
    assert same(["a", "b", ""], ["b", "a", ""]).tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]


def test_each_job_is_placed_once() -> None:
    """The same key with other counters is another job."""
    a, b = SoloProfile(key="x", features={"a": 12.0}), SoloProfile(key="x", features={"a": 14.0})
    c = SoloProfile(key="y", features={"a": 12.0})
    jobs, (rows, besides) = collect_jobs(two_columns(0.0), [(a, b), (b, c), (a, a)])
    assert jobs.keys == ("x", "x", "y")
    assert (rows.tolist(), besides.tolist()) == ([0, 1, 0], [1, 2, 0])
    assert jobs.places.at[:, 0] == pytest.approx([1.0, 2.0, 1.0])


def test_the_gap_of_a_pair_is_its_least_known_counter() -> None:
    """Of either job."""
    places = Positions(np.zeros((3, 2)), np.array([[0.0, 0.1], [0.4, 0.2], [0.0, 0.0]]))
    assert gaps(places, (np.array([0, 1, 2]), np.array([2, 0, 2]))).tolist() == [0.1, 0.4, 0.0]


def fitted(**changes: object) -> CounterModel:
    """One measured pair of jobs a and b, both with all counters, in one view."""
    scale = two_columns(0.0)
    solos = (_solo("a", 12.0, 6.0), _solo("b", 8.0, 14.0))
    jobs, rows = collect_jobs(scale, [solos, (solos[1], solos[0])])
    met = PairObservations(rows, np.array([0.2, -0.6]), np.array([0.01, 0.03]))
    views = (view(LIKENESS, jobs, met, (0, 1)),)
    model = CounterModel("v100", scale, LIKENESS, jobs, met, views, 1.2)
    return replace(model, **changes)  # type: ignore[arg-type]  # by name


def _solo(key: str, a: float, b: float) -> SoloProfile:
    return SoloProfile(key=key, features={"a": a, "b": b})


def test_the_prediction_is_the_posterior_of_the_process() -> None:
    """Mean level + k C⁻¹ (y - level), variance prior - k C⁻¹ k, both by plain algebra."""
    model = fitted()
    assert model.met.level == pytest.approx(-0.2)
    new = _solo("c", 11.0, 9.0)
    beside = _solo("b", 8.0, 14.0)
    places = model.scale.place([_solo("a", 12.0, 6.0).features, beside.features, new.features])
    blocks = kernel_blocks(LIKENESS, places, places, np.eye(3))
    met, query = (np.array([0, 1]), np.array([1, 0])), (np.array([2]), np.array([1]))
    covariance = blocks.between(met, met) + np.diag([0.01, 0.03])
    towards = blocks.between(query, met)
    middle = -0.2 + (towards @ np.linalg.solve(covariance, [0.4, -0.4]))[0]
    left = prior_variances(LIKENESS, places, query)[0]
    left -= (towards @ np.linalg.solve(covariance, towards.T))[0, 0]
    speeds = model.speeds([(new, beside)])
    assert speeds.log_odds[0] == pytest.approx(middle)
    mean = 1.2 / (1 + exp(middle))
    sd = sqrt(left + noise_var(LIKENESS, np.array([mean]), 1.2)[0])
    assert speeds.log_odds_sd[0] == pytest.approx(sd)
    assert speeds.mean[0] == pytest.approx(mean)
    assert (speeds.reference.tolist(), speeds.top) == ([1.0], 1.2)
    assert speeds.missed(speeds.mean) == pytest.approx([0.0])
    assert speeds.missed(speed_of(np.array([middle + 2 * sd]), 1.2)) == pytest.approx([2.0])


def test_widths_and_references_shape_the_interval() -> None:
    """Below and above by sds of their own, half as wide again on another device."""
    new, beside = _solo("c", 11.0, 9.0), _solo("b", 8.0, 14.0)
    model = fitted(widths=(2.0, 1.0), references={"c": 0.5, "b": 0.1})
    plain = fitted().speeds([(new, beside)])
    odds, sd = float(plain.log_odds[0]), float(plain.log_odds_sd[0])
    for device, wide in (("v100", sd), (None, sd), ("a100", 1.5 * sd)):
        speed = model.speed(new, beside, device)
        assert speed.mean == pytest.approx(0.6 / (1 + exp(odds)))
        assert speed.low == pytest.approx(0.6 / (1 + exp(odds + 2.0 * wide)))
        assert speed.high == pytest.approx(0.6 / (1 + exp(odds - 1.0 * wide)))


def test_gaps_bring_back_the_process_s_own_interval() -> None:
    """By the variance of the least known counter; a width above the normal one stays."""
    model = fitted(widths=(1.0, 3.0), scale=two_columns(0.6))
    speeds = model.speeds([(SoloProfile(key="c", features={"a": 11.0}), _solo("b", 8.0, 14.0))])
    odds, sd = float(speeds.log_odds[0]), float(speeds.log_odds_sd[0])
    below = 1.0 + (1.645 - 1.0) * 0.64
    assert speeds.low[0] == pytest.approx(1.2 / (1 + exp(odds + below * sd)))
    assert speeds.high[0] == pytest.approx(1.2 / (1 + exp(odds - 3.0 * sd)))


def test_views_are_averaged_and_their_disagreement_widens() -> None:
    """Means of the means and of the variances, plus the variance between the means."""
    whole = fitted()
    single = view(LIKENESS, whole.jobs, whole.met, (1,))
    new, beside = _solo("c", 11.0, 9.0), _solo("b", 8.0, 14.0)
    parts = [replace(whole, views=(one,)).speeds([(new, beside)]) for one in (*whole.views, single)]
    both = replace(whole, views=(*whole.views, single)).speeds([(new, beside)])
    odds = [float(part.log_odds[0]) for part in parts]
    assert both.log_odds[0] == pytest.approx(sum(odds) / 2)

    def left(speeds: object, middle: float) -> float:
        sd = float(speeds.log_odds_sd[0])  # type: ignore[attr-defined]  # SpeedPredictions
        return sd**2 - float(noise_var(LIKENESS, speed_of(np.array([middle]), 1.2), 1.2)[0])

    spread = (left(parts[0], odds[0]) + left(parts[1], odds[1])) / 2
    spread += ((odds[0] - odds[1]) / 2) ** 2
    assert left(both, sum(odds) / 2) == pytest.approx(spread)


def test_a_job_with_too_few_counters_is_not_predicted() -> None:
    """Three tenths of the columns and at least one; a CPU's model never speaks of a GPU."""
    assert LEAST_KNOWN == 0.3
    columns = tuple(CounterColumn(name) for name in "abcdefghij")
    scale = Scale(columns, np.zeros(10), np.ones(10), np.eye(10))
    model = fitted(scale=scale)
    three = SoloProfile(key="c", features=dict.fromkeys("abc", 1.0))
    two = SoloProfile(key="c", features=dict.fromkeys("ab", 1.0))
    assert model.can_predict(three)
    assert not model.can_predict(two)
    assert not model.can_predict(three, two)
    one_column = fitted(scale=Scale(columns[:1], np.zeros(1), np.ones(1), np.eye(1)))
    assert one_column.can_predict(two)
    assert not one_column.can_predict(SoloProfile(key="c"))
    assert fitted().predict(_solo("a", 1, 1), _solo("b", 1, 1), "cpu") is None
    assert fitted().predict(_solo("a", 1, 1), _solo("b", 1, 1), "a100") is not None
    assert fitted(device="cpu").predict(_solo("a", 1, 1), _solo("b", 1, 1), "a100") is None
    assert fitted(device="cpu").predict(_solo("a", 1, 1), _solo("b", 1, 1), "cpu") is not None


def test_a_view_weighs_observations_by_their_inverse_covariance() -> None:
    """Over its own columns only."""
    model = fitted()
    jobs = CounterJobs(("a", "b"), model.jobs.places)
    made = view(LIKENESS, jobs, model.met, [1])
    column = model.jobs.places[[1]]
    blocks = kernel_blocks(LIKENESS, column, column, np.eye(2))
    covariance = blocks.between(model.met.rows, model.met.rows) + np.diag([0.01, 0.03])
    assert made.columns == (1,)
    assert made.inverse == pytest.approx(np.linalg.inv(covariance))
    assert made.weights == pytest.approx(np.linalg.solve(covariance, [0.4, -0.4]))


# -- the completion kernel ---------------------------------------------------------------------


def test_jobs_are_compared_by_family_size_and_vector() -> None:
    """A job of no family is like none but itself; a vector of another length is unknown."""
    traits = {
        "a": JobTraits(family="resnet", size=log2(32), vector=(1.0, 2.0)),
        "b": JobTraits(family="resnet", size=log2(128), vector=(0.0, 5.0)),
        "c": JobTraits(size=3.0, vector=(1.0,)),
    }
    jobs = job_similarity(["a", "b", "c", "resnet"], traits)
    assert jobs.same.tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert jobs.size.tolist() == [[0, 4, 4, 25], [4, 0, 16, 49], [4, 16, 0, 9], [25, 49, 9, 0]]
    assert jobs.known.tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert jobs.vector.shape == (2, 4, 4)
    assert jobs.vector[:, 0, 1].tolist() == [1.0, 9.0]
    assert jobs.vector[:, 0, 2].tolist() == [1.0, 4.0]
    assert job_similarity([], {}).same.shape == (0, 0)
    assert job_similarity(["a"], {}).known.tolist() == [[0.0]]


def test_a_role_by_families_and_by_vectors() -> None:
    """Variances that fall with squared distances over squared lengths; 2 where none is set."""
    traits = {
        "a": JobTraits(family="f", size=1.0, vector=(1.0, 2.0)),
        "b": JobTraits(family="f", size=4.0, vector=(0.0, 5.0)),
    }
    jobs = job_similarity(["a", "b"], traits)
    role = Role(family=0.2, own=0.05, vector=0.3, size_length=1.5, lengths=(1.0, 3.0))
    family, vector = related(role, jobs)
    assert family == pytest.approx(np.array([[0.2, 0.2 * exp(-2)], [0.2 * exp(-2), 0.2]]))
    assert vector == pytest.approx(np.array([[0.3, 0.3 * exp(-1)], [0.3 * exp(-1), 0.3]]))
    _, usual = related(replace(role, lengths=()), jobs)
    assert usual[0, 1] == pytest.approx(0.3 * exp(-0.5 * 10 / 4))
    family, vector = related(role, job_similarity(["a", "b"], {}))
    assert family.tolist() == [[0.2, 0.0], [0.0, 0.2]]
    assert vector.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_each_role_has_its_matrix_with_the_jobs_own_variance() -> None:
    """In the order of their names: an own variance is on the diagonal alone."""
    names = ("sensitivity", "pressure", "of_job", "of_partner", "of_both")
    roles = {
        name: Role(family=0.0, vector=0.0, own=float(at)) for at, name in enumerate(names, start=1)
    }
    kernel = CompletionKernel(**roles)  # type: ignore[arg-type]  # roles alone
    matrices = kernel_matrices(kernel, job_similarity(["a", "b"], {}))
    for at, name in enumerate(names, start=1):
        assert getattr(matrices, name).tolist() == [[at, 0], [0, at]]
    assert matrices.kernel is kernel


def some_matrices() -> KernelMatrices:
    """Five matrices of two jobs, no entry twice."""
    kernel = CompletionKernel(
        level_var=0.01, device_share=0.25, theirs_var=0.5, both_var=0.3, self_var=0.007
    )
    each = [np.array([[1.0, 0.2], [0.2, 2.0]]) + 0.1 * step for step in range(5)]
    return KernelMatrices(kernel, *each)


def test_two_measurements_are_compared_by_all_parts() -> None:
    """Level, sensitivity, pressure, theirs, both in either direction, and a job beside itself."""
    m = some_matrices()
    rows = np.array([[0, 1, 0, 1], [1, 1, 0, 0], [0, 0, 1, 0]])  # jobs, partners, devices
    found = m.covariance(rows, rows)
    for x in range(4):
        for y in range(4):
            (i, j, on), (k, p, by) = rows[:, x], rows[:, y]
            total = 0.01 + m.sensitivity[i, k] + m.pressure[j, p]
            total += 0.5 * m.of_job[i, k] * m.of_partner[j, p]
            total += 0.15 * (m.of_both[i, k] * m.of_both[j, p] + m.of_both[i, p] * m.of_both[j, k])
            total += 0.007 * (i == j and k == p)
            assert found[x, y] == pytest.approx(total * (1.0 if on == by else 0.25))
    assert m.variance(rows) == pytest.approx(np.diag(found))


def test_another_device_shows_a_share() -> None:
    """1 on the same one."""
    kernel = CompletionKernel(device_share=0.4)
    assert device_covariance(kernel, np.array([0, 1]), np.array([1, 1])).tolist() == [
        [0.4, 0.4],
        [1.0, 1.0],
    ]


def test_a_job_without_a_vector_is_like_none_by_vectors() -> None:
    """Nor like itself: its own family and variance are all that it has."""
    traits = {"a": JobTraits(vector=(1.0,)), "b": JobTraits(vector=(3.0,))}
    _, vector = related(Role(vector=0.3), job_similarity(["a", "b", "c"], traits))
    near = 0.3 * exp(-0.5)
    assert vector == pytest.approx(np.array([[0.3, near, 0], [near, 0.3, 0], [0, 0, 0]]))


def test_kernels_before_a_site_has_measured() -> None:
    """Fitted to published tables: each number counts until a site's own pairs have chosen."""
    unit = Role(family=0.5, own=0.3, vector=0.3, size_length=2.0, lengths=())
    usual = Role(family=0.02, own=0.01, vector=0.02, size_length=2.0, lengths=())
    assert CompletionKernel() == CompletionKernel(
        level=-0.5,
        level_var=0.05,
        device_share=0.3,
        sensitivity=usual,
        pressure=usual,
        of_job=unit,
        of_partner=unit,
        of_both=unit,
        theirs_var=0.005,
        both_var=0.005,
        self_var=0.003,
        noise_var=0.001,
    )
    wide = Role(family=0.04, own=0.04, vector=0.04)
    assert KERNELS[False] == CompletionKernel()
    assert KERNELS[True] == CompletionKernel(
        level=log(0.75),
        level_var=0.1,
        sensitivity=wide,
        pressure=wide,
        theirs_var=0.02,
        both_var=0.01,
    )
    assert CounterKernel() == CounterKernel(
        length=1.0,
        load=0.3,
        slice=0.4,
        both=0.2,
        load_line=0.5,
        slice_line=0.5,
        own_load=0.1,
        own_slice=0.2,
        noise=0.08,
        speed_noise=0.04,
    )


# -- the completed table -----------------------------------------------------------------------


def pair_speed(job: str, partner: str, log_speed: float, **more: object) -> PairSpeed:
    """A measured pair on the device x."""
    fields = {"device": "x", "log_sd": 0.1, **more}
    return PairSpeed(job=job, partner=partner, log_speed=log_speed, **fields)  # type: ignore[arg-type]  # by name


def test_the_table_is_the_posterior_of_what_was_measured() -> None:
    """Level + k C⁻¹ (y - level), variance prior - k C⁻¹ k; without noise."""
    kernel = CompletionKernel(level=-0.3, noise_var=0.02)
    rows = [
        pair_speed("a", "b", -0.1),
        pair_speed("b", "c", -0.9, log_sd=0.2),
        pair_speed("c", "c", -0.4, device="y", log_sd=0.0),
    ]
    table = complete(rows, kernel=kernel, jobs=["d"])
    assert (dict(table.jobs), dict(table.devices)) == (
        {"a": 0, "b": 1, "c": 2, "d": 3},
        {"x": 0, "y": 1},
    )
    assert table.kernel is kernel
    matrices = kernel_matrices(kernel, job_similarity(list("abcd"), {}))
    at = np.array([[0, 1, 2], [1, 2, 2], [0, 0, 1]])
    noise = np.array([0.01, 0.04, 0.0]) + 1e-6 + 0.02
    covariance = matrices.covariance(at, at) + np.diag(noise)
    off = np.array([0.2, -0.6, -0.1])
    for (job, partner, device), ask in (
        (("a", "c", "x"), [0, 2, 0]),
        (("d", "d", "y"), [3, 3, 1]),
        (("b", "a", "new"), [1, 0, 2]),
    ):
        column = np.array(ask)[:, None]
        across = matrices.covariance(column, at)
        mean, sd = table.predict(job, partner, device)
        assert mean == pytest.approx(-0.3 + (across @ np.linalg.solve(covariance, off))[0])
        left = matrices.variance(column) - across @ np.linalg.solve(covariance, across[0])
        assert sd == pytest.approx(sqrt(left[0]))
        assert table.predict(job, partner, device) == (mean, sd)
    assert len(table.cache) == 3
    with pytest.raises(KeyError):
        table.predict("a", "nobody", "x")


def test_the_table_knows_what_was_measured() -> None:
    """Jobs on a device, on either side; pairs in their order."""
    table = complete([pair_speed("a", "b", -0.1)], kernel=CompletionKernel(), jobs=["d"])
    assert table.has_job("a", "x")
    assert table.has_job("b", "x")
    assert not table.has_job("a", "y")
    assert not table.has_job("d", "x")
    assert not table.has_job("nobody", "x")
    assert table.has_pair("a", "b", "x")
    assert not table.has_pair("b", "a", "x")
    assert not table.has_pair("a", "b", "y")


# -- all that is known -------------------------------------------------------------------------


def test_jobs_in_general() -> None:
    """0.75 on CPUs and 0.6 on a GPU; 1.96 sds below, 1.44 above; nobody is above 1.5."""
    a, b = SoloProfile(key="a"), SoloProfile(key="b")
    for device, level, sd in (("cpu", log(0.75), 0.6), ("A100", log(0.6), 0.4)):
        speed = SlowdownModel().speed(a, [b], device)
        assert speed.mean == pytest.approx(exp(level))
        assert speed.low == pytest.approx(exp(level - 1.96 * sd))
        assert speed.high == pytest.approx(min(1.5, exp(level + 1.44 * sd)))
        assert (speed.evidence, speed.runs) == (SpeedBasis.PRIOR, 0)
    wide = SlowdownModel(widths={SpeedBasis.PRIOR: 2.0}).speed(a, [b], "A100")
    assert wide.low == pytest.approx(exp(log(0.6) - 1.96 * 0.8))
    assert wide.high == pytest.approx(1.5)


def test_a_measured_pair_is_shrunk_towards_jobs_in_general() -> None:
    """By variances, where the table does not hold it; the next run differs by its own spread."""
    runs = [CorunMeasurement(job="a", partners=("b",), speed=0.9, seconds=600.0, device="A100")]
    known = slowdown_model(runs)
    (stats,) = known.met.values()
    a, b = SoloProfile(key="a"), SoloProfile(key="b")
    speed = replace(known, tables={}).speed(a, [b], "A100")
    sd = 0.4
    share = sd**2 / (sd**2 + stats.log_sd**2)
    # The upper bound of a prior is cut; its sd is read from the lower one.
    mean = log(0.6) + share * (stats.log_speed - log(0.6))
    wide = sqrt(sd**2 * (1 - share) + stats.spread**2)
    assert speed.mean == pytest.approx(exp(mean))
    assert speed.low == pytest.approx(exp(mean - 1.96 * wide))
    assert speed.evidence is SpeedBasis.PAIR
    table = known.tables[False]
    middle, table_sd = table.predict("a", "b", "A100")
    filled = known.speed(a, [b], "A100")
    wide = sqrt(table_sd**2 + stats.spread**2)
    assert filled.mean == pytest.approx(exp(middle))
    assert filled.low == pytest.approx(exp(middle - 1.96 * wide))
    turned = known.speed(b, [a], "A100")
    middle, table_sd = table.predict("b", "a", "A100")
    assert turned.low == pytest.approx(exp(middle - 1.96 * sqrt(table_sd**2 + 0.001)))
    assert (turned.evidence, turned.runs) == (SpeedBasis.COMPLETED, 0)
    assert known.devices == {"A100"}
    assert set(known.tables) == {False}


def test_kernels_of_one_kind_leave_the_other_s() -> None:
    """A table without a kernel of its own has the usual one."""
    runs = [CorunMeasurement(job="a", partners=("b",), speed=0.9, seconds=600.0)]
    own = CompletionKernel(level=-0.1)
    assert slowdown_model(runs, kernels={True: own}).tables[True].kernel is own
    assert slowdown_model(runs, kernels={False: own}).tables[True].kernel is KERNELS[True]
    measured = measured_pairs(slowdown_model(runs), on_cpu=True)
    assert [(one.job, one.partner, one.device) for one in measured] == [("a", "b", "cpu")]
    assert measured_pairs(slowdown_model(runs), on_cpu=False) == []


def test_counters_are_the_prior_of_a_measured_pair() -> None:
    """Of this job beside this other, on this device; what it was built from is kept."""
    runs = [CorunMeasurement(job="a", partners=("b",), speed=0.9, seconds=600.0)]
    asked: list[tuple[str, str, str]] = []

    def by_counters(job: SoloProfile, beside: SoloProfile, device: str) -> RelativeSpeed:
        asked.append((job.key, beside.key, device))
        return RelativeSpeed(mean=0.8, low=0.7, high=0.9, evidence=SpeedBasis.COUNTERS)

    solos, traits = {"a": SoloProfile(key="a")}, {"a": JobTraits(size=2.0)}
    known = slowdown_model(runs, solos, traits=traits, by_counters=by_counters)
    assert (known.solos, known.traits, known.refused) == (solos, traits, 0)
    speed = replace(known, tables={}).speed(SoloProfile(key="a"), [SoloProfile(key="b")])
    assert asked == [("a", "b", "cpu")]
    (stats,) = known.met.values()
    sd = log(0.8 / 0.7) / 1.96
    share = sd**2 / (sd**2 + stats.log_sd**2)
    assert speed.mean == pytest.approx(exp(log(0.8) + share * (stats.log_speed - log(0.8))))
