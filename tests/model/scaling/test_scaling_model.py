"""The scaling of a training beyond its measurements: strata, mixtures, shares, draws, messages."""

import json
from dataclasses import replace
from math import exp, gamma, log, nan, pi, sqrt
from pathlib import Path

import numpy as np
import pytest

from slurm_ext.core.errors import InputError, ModelError
from slurm_ext.model.scaling import sampling, speedup
from slurm_ext.model.scaling.artifact import ABOUT, ARRAYS, NAMES, load, serialize
from slurm_ext.model.scaling.family import Family, same_group
from slurm_ext.model.scaling.model import (
    MOST_MEMBERS,
    ScalingMeasurement,
    ScalingModel,
    TrainingConfig,
    fit,
)
from slurm_ext.model.scaling.prior import (
    BEYOND,
    INSIDE,
    ScalingPrior,
    default_prior,
    default_term_prior,
)
from slurm_ext.model.scaling.sampling import Draws, draw
from slurm_ext.model.scaling.similarity import similarity
from slurm_ext.model.scaling.speedup import CountMeasurement, curve_likelihood
from slurm_ext.model.scaling.speedup_terms import GPUS_EACH, GPUS_SPLIT, SpeedupPrior, log_rates
from slurm_ext.model.scaling.terms import TERMS, columns, log_step


def measured(gpus: int, nodes: int, rate: float, local_batch: float = 32.0) -> ScalingMeasurement:
    """A rate at a layout."""
    config = TrainingConfig(gpus=gpus, nodes=nodes, local_batch=local_batch)
    return ScalingMeasurement(config=config, samples_per_s=rate)


POINTS = [measured(1, 1, 300.0), measured(4, 1, 1100.0), measured(8, 2, 1900.0)]


def test_beyond_is_more_gpus_or_more_nodes_than_measured() -> None:
    """Either; a larger batch is not."""
    model = fit(POINTS)
    at = columns(
        [
            TrainingConfig(gpus=8, nodes=2, local_batch=999.0),
            TrainingConfig(gpus=9, nodes=2, local_batch=32.0),
            TrainingConfig(gpus=8, nodes=3, local_batch=32.0),
        ]
    )
    assert model.strata(at) == [INSIDE, BEYOND, BEYOND]


def test_the_interval_is_by_points_and_by_stratum() -> None:
    """Half widths in sds: up to so many points, and the last for all above."""
    widths = ((1.0, (1.0, 2.0)), (3.0, (0.5, 0.7)))
    prior = ScalingPrior(
        components=(default_term_prior(),),
        scales=np.ones((1, 3)),
        chances=np.ones(1),
        widths=widths,
    )
    assert [prior.width(points, INSIDE) for points in (1, 2, 3, 4)] == [1.0, 0.5, 0.5, 0.5]
    assert prior.width(1, BEYOND) == 2.0
    model = fit(POINTS, prior)
    for gpus, width in ((4, 0.5), (16, 0.7)):
        config = TrainingConfig(gpus=gpus, nodes=max(1, gpus // 4), local_batch=32.0)
        rate, interval = model.rate(config)
        (mean,), (sd,) = model.log_steps(columns([config]))
        assert rate == pytest.approx(gpus * 32 / exp(mean))
        assert interval.low == pytest.approx(rate * exp(-width * sd))
        assert interval.high == pytest.approx(rate * exp(width * sd))


def test_members_are_mixed_by_their_weights() -> None:
    """The mean of means; the variance within and between them."""
    scales = np.array([[1.0, 1.0, 1.0], [4.0, 4.0, 4.0]])
    prior = ScalingPrior(
        components=(default_term_prior(),),
        scales=scales,
        chances=np.array([0.5, 0.5]),
        widths=default_prior().widths,
    )
    model = fit(POINTS, prior)
    assert sum(weight for weight, _ in model.members) == pytest.approx(1.0)
    assert model.members[0][0] >= model.members[1][0]
    at = columns([TrainingConfig(gpus=16, nodes=4, local_batch=64.0)])
    means, variances = [], []
    for _, member in model.members:
        single = ScalingModel(prior=prior, at=model.at, members=((1.0, member),))
        mean, sd = single.log_steps(at)
        means.append(mean[0])
        variances.append(sd[0] ** 2)
    weights = [weight for weight, _ in model.members]
    mean, sd = model.log_steps(at)
    expected = np.dot(weights, means)
    assert mean[0] == pytest.approx(expected)
    spread = np.dot(weights, np.array(variances) + (np.array(means) - expected) ** 2)
    assert sd[0] == pytest.approx(sqrt(spread))
    many = ScalingPrior(
        components=(default_term_prior(),),
        scales=np.outer(np.linspace(0.5, 3, 7), np.ones(3)),
        chances=np.full(7, 1 / 7),
        widths=default_prior().widths,
    )
    assert len(fit(POINTS, many).members) == MOST_MEMBERS == 5


def test_the_chance_of_a_scale_counts() -> None:
    """Twice the chance is twice the weight."""
    scales = np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    prior = ScalingPrior(
        components=(default_term_prior(),),
        scales=scales,
        chances=np.array([0.2, 0.6]),
        widths=default_prior().widths,
    )
    assert [weight for weight, _ in fit(POINTS, prior).members] == pytest.approx([0.75, 0.25])


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ((0, 0, 32.0, None), "config: 0 GPUs on 0 nodes: expected at least one on each"),
        ((1, 2, 32.0, None), "config: 1 GPUs on 2 nodes: expected at least one on each"),
        ((1, 1, 0.0, None), "config: local_batch = 0.0: expected above 0"),
        ((1, 1, nan, None), "config: local_batch = nan: expected above 0"),
        ((4, 2, 32.0, (3, 2)), "config: placement (3, 2) is not 4 GPUs"),
        ((4, 2, 32.0, (4,)), "config: placement (4,) is not 4 GPUs"),
        ((4, 2, 32.0, (4, 0)), "config: placement (4, 0) is not 4 GPUs"),
    ],
)
def test_messages_of_configs_that_cannot_be(
    config: tuple[int, int, float, tuple[int, ...] | None], message: str
) -> None:
    """Whole."""
    gpus, nodes, local_batch, placement = config
    wrong = TrainingConfig(gpus=gpus, nodes=nodes, local_batch=local_batch, placement=placement)
    with pytest.raises(InputError) as raised:
        fit(POINTS).rate(wrong)
    assert str(raised.value) == message
    with pytest.raises(InputError, match="measurements: none: at least one config has"):
        fit([])
    with pytest.raises(InputError) as raised:
        fit([measured(1, 1, -1.0)])
    assert str(raised.value) == "measurements: samples_per_s = -1.0: expected a positive number"


# -- draws -------------------------------------------------------------------------------------


def test_densities_are_normal_and_student_s() -> None:
    """Of two correlated terms, by their formulas; five degrees of freedom."""
    covariance = np.array([[2.0, 0.6], [0.6, 1.0]])
    root, mean = np.linalg.cholesky(covariance), np.array([1.0, -1.0])
    rows = np.array([[1.0, -1.0], [3.0, 0.5]])
    inverse, determinant = np.linalg.inv(covariance), np.linalg.det(covariance)
    squares = np.array([(row - mean) @ inverse @ (row - mean) for row in rows])
    normal = np.exp(-squares / 2) / (2 * pi * sqrt(determinant))
    student = gamma(3.5) / (gamma(2.5) * 5 * pi * sqrt(determinant)) * (1 + squares / 5) ** -3.5
    assert np.exp(sampling._Normal(mean, root).log_density(rows)) == pytest.approx(normal)
    assert np.exp(sampling._Student(mean, root).log_density(rows)) == pytest.approx(student)
    assert (sampling.TAILS, sampling.ROUNDS, sampling.DRAWS, sampling.SPREAD) == (5, 3, 1500, 1.2)


def test_draws_have_moments_and_quantiles() -> None:
    """Weighted ones."""
    draws = Draws(np.array([[1.0, 2.0], [3.0, 0.0]]), np.array([0.75, 0.25]))
    assert draws.mean().tolist() == [1.5, 1.5]
    assert draws.covariance() == pytest.approx(np.array([[0.75, -0.75], [-0.75, 0.75]]))
    values = np.array([10.0, 20.0])
    assert draws.quantile(values, 0.375) == 10.0
    assert draws.quantile(values, 0.875) == 20.0
    assert draws.quantile(values, 0.625) == 15.0
    assert draws.quantile(values[::-1], 0.125) == 10.0


def test_a_normal_likelihood_gives_the_normal_posterior() -> None:
    """Prior N(0, 1), one measurement of 2 with an sd of 0.5: mean 1.6, variance 0.2."""
    found = draw(lambda rows: -((rows[:, 0] - 2.0) ** 2) / 0.5, np.zeros(1), np.eye(1))
    assert len(found.rows) == 4500
    assert found.weights.sum() == pytest.approx(1.0)
    assert found.mean()[0] == pytest.approx(1.6, abs=0.02)
    assert found.covariance()[0, 0] == pytest.approx(0.2, abs=0.02)


def test_a_certainty_is_drawn_too() -> None:
    """A prior without variance in a term keeps to it, and the other term learns."""
    prior = np.diag([0.0, 1.0])
    found = draw(lambda rows: -((rows[:, 1] - 2.0) ** 2) / 0.5, np.array([3.0, 0.0]), prior)
    assert found.mean()[0] == pytest.approx(3.0, abs=0.001)
    assert found.mean()[1] == pytest.approx(1.6, abs=0.02)


# -- counts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [GPUS_SPLIT, GPUS_EACH])
def test_the_likelihood_of_counts_by_its_formula(prior: SpeedupPrior) -> None:
    """The rate of one unit is worked out; what is missed then is a Student's t."""
    points = [
        CountMeasurement(count=1, rate=10.0),
        CountMeasurement(count=2, rate=18.0, log_sd=0.04),
        CountMeasurement(count=4, rate=30.0),
    ]
    terms = np.array([[-2.0, 0.2, -3.0, -4.0], [-1.0, 0.0, -2.0, -3.0]])
    found = curve_likelihood(points, prior, terms)
    trust = np.array([1 / 0.0009, 1 / 0.0025, 1 / 0.0009])
    over = np.log([10.0, 18.0, 30.0]) - log_rates(
        terms, np.array([1.0, 2.0, 4.0]), splits=prior.splits
    )
    one = over @ trust / trust.sum()
    squares = ((over - one[:, None]) ** 2 * trust).sum(1)
    assert found.log_one == pytest.approx(one)
    assert found.log_one_sd == pytest.approx(trust.sum() ** -0.5)
    assert found.freedom == 5.0
    assert found.log_likelihood() == pytest.approx(-2.5 * np.log1p(squares / 3))
    assert found.noise_factor() == pytest.approx(np.sqrt((3 + squares) / 5))


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([], "measurements: none: at least one count has to be measured"),
        (
            [CountMeasurement(count=2, rate=0.0)],
            "measurements: rate = 0.0 at 2: expected a positive number",
        ),
        (
            [CountMeasurement(count=2, rate=1.0, log_sd=-0.1)],
            "measurements: log_sd = -0.1 at 2: expected 0 or more",
        ),
        ([CountMeasurement(count=0.5, rate=1.0)], "count: 0.5: expected 1 to 1048576 units"),
    ],
)
def test_messages_of_counts_that_cannot_be(points: list[CountMeasurement], message: str) -> None:
    """Whole."""
    with pytest.raises(InputError) as raised:
        speedup.fit(points, GPUS_SPLIT)
    assert str(raised.value) == message


# -- families ----------------------------------------------------------------------------------


def family() -> Family:
    """Two trainings of one model on two clusters, one of another model."""
    configs = [
        TrainingConfig(gpus=gpus, nodes=nodes, local_batch=32.0)
        for gpus, nodes in ((1, 1), (4, 1), (8, 2))
    ]
    at = columns(configs)
    means = default_term_prior().means
    rng = np.random.default_rng(0)
    return Family(
        models=("resnet", "bert"),
        clusters=("a", "b"),
        log_batch0=np.array([log(32), log(8)]),
        model=np.array([0, 0, 1]),
        cluster=np.array([0, 1, 1]),
        at=at,
        logs=log_step(means, at, log(32)) + np.array([0.3, 0.2, -0.5]),
        slopes=rng.normal(size=(3, len(TERMS))),
        terms=rng.uniform(0.01, 0.1, (len(TERMS), 4)),
        parts=rng.uniform(0.001, 0.01, (5, 4)),
        noise_sd=0.05,
        scales=np.ones((2, 3)),
        chances=np.array([0.5, 0.5]),
        widths=((2.0, (1.5, 2.5)), (float("inf"), (1.0, 2.0))),
    )


def test_groups_share_levels() -> None:
    """All, the model, the cluster, and both."""
    groups = same_group(np.array([0, 1]), np.array([0, 0]), np.array([0, 1]), np.array([1, 0]))
    assert groups.tolist() == [
        [[1, 1], [1, 1]],
        [[1, 0], [0, 1]],
        [[0, 1], [0, 1]],
        [[0, 0], [0, 1]],
    ]


def test_a_family_is_conditioned_on_what_is_shared() -> None:
    """The normal conditional, its covariances summed term by term."""
    known = family()
    prior = known.term_prior(model="resnet", cluster="new")
    levels = [[1, 1, 1], [1, 1, 0], [0, 0, 0]]  # all, model, cluster
    covariance = np.diag([0.0025] * 3)
    same = same_group(known.model, known.cluster, known.model, known.cluster)
    for slope, variances in zip(known.slopes.T, known.terms, strict=True):
        covariance += np.outer(slope, slope) * sum(
            v * s for v, s in zip(variances, same, strict=True)
        )
    near = similarity(known.at, known.at)
    for part, variances in zip(near, known.parts, strict=True):
        covariance += part * sum(v * s for v, s in zip(variances, same, strict=True))
    assert known.solved == pytest.approx(np.linalg.inv(covariance))
    toward = (known.terms[:, :3] @ np.array(levels)) * known.slopes.T
    weights = np.linalg.solve(covariance, known.logs)
    assert prior.means == pytest.approx(default_term_prior().means + toward @ weights)
    left = np.diag(known.terms.sum(1)) - toward @ np.linalg.solve(covariance, toward.T)
    assert prior.covariance == pytest.approx(left)
    assert prior.own == pytest.approx(known.parts[:, 3])
    assert (prior.noise_sd, prior.log_batch0) == (0.05, log(32))
    assert prior.others is not None
    assert prior.others.shared == pytest.approx(known.parts[:, :3] @ np.array(levels))
    assert prior.others.common == pytest.approx(known.parts[:, :3].sum(1))
    assert prior.others.weights == pytest.approx(weights)
    assert known.term_prior(model="bert", cluster="a").log_batch0 == log(8)
    assert known.term_prior(model="new", cluster="a").log_batch0 is None
    mixed = known.prior(model="bert", cluster="a")
    assert len(mixed.components) == 2
    assert mixed.components[1] is default_term_prior()
    assert (mixed.scales is known.scales, mixed.widths) == (True, known.widths)


def test_a_family_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    """The same family is the same bytes."""
    written = serialize(family())
    assert serialize(family()) == written
    for name, data in written.items():
        (tmp_path / name).write_bytes(data)
    again = load(tmp_path)
    for name in ("model", "cluster", "at", "logs", "slopes", "log_batch0", "terms", "parts"):
        assert np.array_equal(getattr(again, name), getattr(family(), name))
    assert again.scales.tolist() == [[1.0] * 3] * 2
    assert (again.chances.tolist(), again.noise_sd) == ([0.5, 0.5], 0.05)
    assert (again.models, again.clusters) == (("resnet", "bert"), ("a", "b"))
    assert again.widths == family().widths
    assert again.term_prior(model="bert", cluster="b").means == pytest.approx(
        family().term_prior(model="bert", cluster="b").means
    )
    assert (ABOUT, ARRAYS, len(NAMES)) == ("scaling.json", "scaling.npz", 11)


def test_a_family_says_what_its_columns_are() -> None:
    """In its file: another release with other terms, parts or levels refuses it."""
    body = json.loads(serialize(family())[ABOUT])
    assert body["parts"] == ["batch", "same_batch", "layout", "same_layout", "both"]
    assert body["levels"] == ["all", "model", "cluster", "own"]
    assert body["terms"] == [
        "log_step_s",
        "logit_fixed",
        "kappa",
        "log_one_node",
        "rho",
        "log_several",
        "nu",
        "eta",
        "pair",
        "beta",
        "log_overlap",
    ]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("noise_sd", 0.0, "scaling.json: noise_sd = 0.0"),
        ("noise_sd", -1.0, "scaling.json: noise_sd = -1.0"),
        ("at", np.zeros((2, 5)), "scaling.npz: holds other arrays than a family has"),
        ("logs", np.array([0.0, nan, 0.0]), "scaling.npz: holds numbers that are not finite"),
    ],
)
def test_a_family_that_cannot_be_is_refused(
    field: str, value: object, message: str, tmp_path: Path
) -> None:
    """With the file and the fault."""
    for name, data in serialize(replace(family(), **{field: value})).items():  # type: ignore[arg-type]  # by name
        (tmp_path / name).write_bytes(data)
    with pytest.raises(ModelError) as raised:
        load(tmp_path)
    assert message in str(raised.value)
