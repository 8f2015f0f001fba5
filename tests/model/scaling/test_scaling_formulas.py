"""Scaling by its formulas: similar residuals, the most probable terms, steps, and speedups."""

from math import exp, log, sqrt

import numpy as np
import pytest

from slurm_ext.core.errors import InputError
from slurm_ext.model.scaling import goodput_speed as step_times
from slurm_ext.model.scaling import laplace
from slurm_ext.model.scaling.goodput_speed import MOST_POINTS, StepMeasurement, fit, regress
from slurm_ext.model.scaling.laplace import (
    DOUBT,
    initial_terms,
    laplace_fit,
    log_marginals,
    observe,
    predict,
)
from slurm_ext.model.scaling.prior import TermPrior, default_term_prior
from slurm_ext.model.scaling.similarity import (
    ResidualPrior,
    SharedResiduals,
    residual_prior,
    similarity,
)
from slurm_ext.model.scaling.speedup_terms import (
    GPUS_EACH,
    GPUS_SPLIT,
    independent_prior,
    log_rates,
    waiting,
)
from slurm_ext.model.scaling.terms import TERMS, log_step, slopes

# -- similar residuals -------------------------------------------------------------------------

# log batch, GPUs, nodes, most and fewest GPUs on a node
ROWS = np.array(
    [
        [log(32), 4, 1, 4, 4],
        [log(64), 4, 1, 4, 4],
        [log(32), 8, 2, 4, 4],
        [log(32), 8, 2, 5, 3],
        [log(32), 8, 4, 2, 2],
    ]
)
OWN = np.array([0.9, 0.4, 0.25, 0.16, 0.1])  # of batch, same batch, layout, same layout, both


def test_configs_are_alike_by_batch_and_by_layout() -> None:
    """Batches over a reach of 1.5 in logs, layouts over 1; one node and several never."""
    near = similarity(ROWS, ROWS)
    batch = exp(-0.5 * (log(2) / 1.5) ** 2)
    assert near[:, 0, 0].tolist() == [1, 1, 1, 1, 1]
    assert near[:, 0, 1] == pytest.approx([batch, 0, 1, 1, batch])
    assert near[:, 0, 2] == pytest.approx([1, 1, 0, 0, 0])
    uneven = exp(-0.5 * log(5 / 4) ** 2)
    assert near[:, 2, 3] == pytest.approx([1, 1, uneven, 0, uneven])
    fewer = exp(-0.5 * 2 * log(2) ** 2)
    assert near[:, 2, 4] == pytest.approx([1, 1, fewer, 0, fewer])
    assert similarity(ROWS[:2], ROWS).shape == (5, 2, 5)


def test_layouts_of_the_same_most_but_other_fewest_are_not_the_same() -> None:
    """They are as near as can be, and still two."""
    pair = np.array([[0.0, 8, 3, 4, 2], [0.0, 8, 3, 4, 1]])
    assert similarity(pair, pair)[:, 0, 1].tolist() == [1, 1, 1, 0, 1]


def test_the_own_part_is_half_batch_and_half_layout() -> None:
    """Batch and same batch with the first scale, layouts with the second, both with half each."""
    prior = residual_prior(OWN, None, ROWS[:1], ROWS)
    near = similarity(ROWS[:1], ROWS)[:, 0]
    assert prior.batch[0] == pytest.approx(0.9 * near[0] + 0.4 * near[1] + 0.05 * near[4])
    assert prior.layout[0] == pytest.approx(0.25 * near[2] + 0.16 * near[3] + 0.05 * near[4])
    assert (prior.expected.tolist(), prior.alone.tolist()) == ([0.0], [0.0])
    assert prior.shared.tolist() == [[0.0] * 5]


def test_scales_multiply_standard_deviations() -> None:
    """Of batch and layout; the noise is left out."""
    parts = [np.array([[value]]) for value in (1.0, 10.0, 100.0)]
    prior = ResidualPrior(
        expected=np.zeros(1), alone=np.zeros(1), shared=parts[0], batch=parts[1], layout=parts[2]
    )
    assert prior.covariance(np.array([2.0, 3.0, 7.0])).tolist() == [[1.0 + 40.0 + 900.0]]


def some_others() -> SharedResiduals:
    """Two other measurements, and what is shared with them."""
    solved = np.array([[3.0, -0.5], [-0.5, 2.0]])
    shared = np.array([[0.3, 0.1], [0.1, 0.2], [0.2, 0.1], [0.1, 0.1], [0.0, 0.1]])
    return SharedResiduals(
        at=ROWS[1:3],
        shared=shared,
        common=np.array([0.5, 0.4, 0.3, 0.2, 0.1]),
        solved=solved,
        weights=np.array([0.7, -0.2]),
    )


def test_others_say_what_to_expect() -> None:
    """Covariance @ weights, and what is left of the common variance; never below 0."""
    others = some_others()
    left, right = ROWS[:2], ROWS[2:]
    toward, from_right = others.toward(left), others.toward(right)
    for row in range(2):
        for other in range(2):
            near = similarity(left, others.at)[:, row, other]
            assert toward[row, other] == pytest.approx(near @ others.shared[:, other])
    prior = residual_prior(OWN, others, left, right)
    assert prior.expected == pytest.approx(toward @ [0.7, -0.2])
    assert prior.alone == pytest.approx(
        [max(0.0, 1.5 - row @ others.solved @ row) for row in toward]
    )
    common = np.einsum("p,pij->ij", others.common, similarity(left, right))
    assert prior.shared == pytest.approx(common - toward @ others.solved @ from_right.T)
    again = residual_prior(OWN, others, left, left)
    assert again.shared == pytest.approx(residual_prior(OWN, others, left, left.copy()).shared)


# -- the most probable terms -------------------------------------------------------------------


def observed_steps(prior: TermPrior) -> tuple[np.ndarray, np.ndarray]:
    """Steps of four configs that the mean terms do not explain."""
    terms = prior.means + np.array([0.5, 0.3, 0.1, 0.4, -0.1, 0.3, 0.1, 0.0, 0.0, 0.05, 0.1])
    return ROWS[:4], log_step(terms, ROWS[:4], log(32)) + np.array([0.05, -0.05, 0.1, 0.0])


def test_the_reference_batch_is_the_smallest_measured() -> None:
    """Unless the prior has one; expected residuals are taken off."""
    prior = default_term_prior()
    at, steps = observed_steps(prior)
    observed = observe(prior, at[1:], steps[1:])
    assert observed.log_batch0 == pytest.approx(log(32))
    assert observe(prior, at[1:2], steps[1:2]).log_batch0 == pytest.approx(log(64))
    assert observed.trust == pytest.approx(np.linalg.inv(prior.covariance))
    known = TermPrior(
        means=prior.means,
        covariance=prior.covariance,
        own=prior.own,
        noise_sd=prior.noise_sd,
        others=some_others(),
        log_batch0=1.5,
    )
    observed = observe(known, at, steps)
    assert observed.log_batch0 == 1.5
    assert observed.steps == pytest.approx(steps - observed.residuals.expected)
    assert observed.residuals.expected.any()


def test_first_terms_are_the_means_at_the_measured_length() -> None:
    """Moved by the median of what is missed; the prior itself is not changed."""
    prior = default_term_prior()
    before = prior.means.copy()
    at = ROWS[:3]
    steps = log_step(prior.means, at, log(32)) + np.array([0.1, 2.0, 0.3])
    first = initial_terms(observe(prior, at, steps))
    assert first[0] - prior.means[0] == pytest.approx(0.3)
    assert first[1:].tolist() == before[1:].tolist()
    assert prior.means.tolist() == before.tolist()


def test_the_fit_is_where_no_small_step_is_more_probable() -> None:
    """Spread, weights and surprise follow from it by their formulas."""
    prior, scale = default_term_prior(), np.array([1.5, 0.5, 2.0])
    at, steps = observed_steps(prior)
    observed = observe(prior, at, steps)
    fitted = laplace_fit(observed, scale, initial_terms(observed))
    covariance = observed.residuals.covariance(scale) + (2.0 * 0.03) ** 2 * np.eye(4)
    solved = np.linalg.inv(covariance)
    assert fitted.solved == pytest.approx(solved)

    def misfit(terms: np.ndarray) -> float:
        off = steps - log_step(terms, at, log(32))
        pull = terms - prior.means
        return float(off @ solved @ off + pull @ observed.trust @ pull)

    best = misfit(fitted.terms)
    for slot in range(len(TERMS)):
        for sign in (1, -1):
            moved = fitted.terms.copy()
            moved[slot] += sign * 0.02 * sqrt(prior.covariance[slot, slot])
            assert misfit(moved) > best
    off = steps - log_step(fitted.terms, at, log(32))
    here = slopes(fitted.terms, at, log(32))
    assert fitted.slopes == pytest.approx(here)
    assert fitted.weights == pytest.approx(solved @ off)
    assert fitted.spread == pytest.approx(np.linalg.inv(here.T @ solved @ here + observed.trust))
    pull = (fitted.terms - prior.means)[1:]
    missed = off @ solved @ off + pull @ observed.trust[1:, 1:] @ pull
    assert fitted.surprise == pytest.approx(sqrt((6.0 + missed) / (6.0 + 4)))
    assert DOUBT == 6.0


def test_the_chance_of_each_scale() -> None:
    """Gauss's, of a model made linear at the terms; without its constant."""
    prior = default_term_prior()
    at, steps = observed_steps(prior)
    observed = observe(prior, at, steps)
    terms = initial_terms(observed) + 0.01
    scales = np.array([[1.0, 1.0, 1.0], [2.0, 0.5, 3.0]])
    here = slopes(terms, at, log(32))
    off = steps - log_step(terms, at, log(32)) + here @ (terms - prior.means)
    for chance, scale in zip(log_marginals(observed, terms, scales), scales, strict=True):
        covariance = observed.residuals.covariance(scale) + here @ prior.covariance @ here.T
        covariance = covariance + (scale[2] * 0.03) ** 2 * np.eye(4)
        expected = -0.5 * (off @ np.linalg.solve(covariance, off) + log(np.linalg.det(covariance)))
        assert chance == pytest.approx(expected)


def test_a_prediction_is_the_curve_and_what_residuals_add() -> None:
    """Its variance: residuals that are left, uncertain terms, noise; times the surprise."""
    prior, scale = default_term_prior(), np.array([1.5, 0.5, 2.0])
    at, steps = observed_steps(prior)
    observed = observe(prior, at, steps)
    fitted = laplace_fit(observed, scale, initial_terms(observed))
    new = np.array([[log(48), 8, 2, 4, 4]])
    residuals = residual_prior(prior.own, None, new, at)
    mean, variance = predict(fitted, new, residuals)
    cross = residuals.covariance(scale)
    assert mean == pytest.approx(log_step(fitted.terms, new, log(32)) + cross @ fitted.weights)
    own = prior.own
    halves = 2.25 * (own[0] + own[1] + own[4] / 2) + 0.25 * (own[2] + own[3] + own[4] / 2)
    lever = slopes(fitted.terms, new, log(32)) - cross @ fitted.solved @ fitted.slopes
    expected = halves - (cross @ fitted.solved @ cross.T)[0, 0] + 0.06**2
    expected += (lever @ fitted.spread @ lever.T)[0, 0]
    assert variance == pytest.approx([fitted.surprise**2 * expected])


def test_others_add_their_expectation_and_their_doubt() -> None:
    """Both of the new row alone."""
    base = default_term_prior()
    prior = TermPrior(
        means=base.means,
        covariance=base.covariance,
        own=base.own,
        noise_sd=base.noise_sd,
        others=some_others(),
        log_batch0=log(32),
    )
    at, steps = observed_steps(prior)
    observed = observe(prior, at, steps)
    fitted = laplace_fit(observed, np.ones(3), initial_terms(observed))
    new = np.array([[log(48), 8, 2, 4, 4]])
    known = residual_prior(prior.own, prior.others, new, at)
    assert known.alone[0] > 0
    mean, variance = predict(fitted, new, known)
    bare = ResidualPrior(
        expected=np.zeros(1),
        alone=np.zeros(1),
        shared=known.shared,
        batch=known.batch,
        layout=known.layout,
    )
    bare_mean, bare_variance = predict(fitted, new, bare)
    assert mean - bare_mean == pytest.approx(known.expected)
    assert variance[0] > bare_variance[0]


def test_the_misfit_and_where_it_ends() -> None:
    """Squares of what is missed and of what the prior is left by; flat at the fitted terms."""
    prior = default_term_prior()
    at, steps = observed_steps(prior)
    observed = observe(prior, at, steps)
    solved = np.diag([1.0, 2.0, 3.0, 4.0])
    terms = prior.means + 0.1
    off = steps - log_step(terms, at, log(32))
    sds = np.sqrt(np.diag(prior.covariance))
    expected = off**2 @ np.diag(solved) + ((0.1 / sds) ** 2).sum()
    assert laplace._misfit(observed, solved, terms) == pytest.approx(expected)
    best = laplace._most_probable(observed, solved, terms)
    here = slopes(best, at, log(32))
    off = steps - log_step(best, at, log(32))
    slope = here.T @ solved @ off - observed.trust @ (best - prior.means)
    assert np.abs(slope * sds).max() < 0.01


# -- steps from a job's own measurements -------------------------------------------------------


def measured(
    gpus: int, nodes: int, most: int, local: float, compute_s: float, sync_s: float
) -> StepMeasurement:
    """One config."""
    return StepMeasurement(
        gpus=gpus, nodes=nodes, most=most, local=local, compute_s=compute_s, sync_s=sync_s
    )


def asked(model: step_times.StepTimeModel, *config: float) -> tuple[float, float]:
    """Seconds of computing and of synchronising at (gpus, nodes, most, local)."""
    compute, sync = model.steps(*(np.array([value], dtype=float) for value in config))
    return float(compute[0]), float(sync[0])


def test_a_regression_is_the_posterior_of_its_process() -> None:
    """Linear terms and residuals alike over a length of 1 in logs, noise of 3 %."""
    at, new = np.array([[1.0, 0.5], [1.0, 2.0], [1.0, 1.0]]), np.array([[1.0, 0.7], [1.0, 9.0]])
    values, terms = np.array([0.1, 0.9, 0.2]), np.array([0.2, 0.1])
    prior, residual = np.diag([0.5, 0.25]), 0.4

    def covariance(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        apart = ((one[:, None] - other[None]) ** 2).sum(-1)
        return np.asarray(one @ prior @ other.T + 0.16 * np.exp(-apart / 2))

    inside = covariance(at, at) + 0.0009 * np.eye(3)
    towards = covariance(new, at)
    posterior, chance = regress(at, values, terms, prior, residual)
    mean, sd = posterior.answer(new)
    missed = values - at @ terms
    assert mean == pytest.approx(new @ terms + towards @ np.linalg.solve(inside, missed))
    left = covariance(new, new) - towards @ np.linalg.solve(inside, towards.T)
    assert sd == pytest.approx(np.sqrt(np.diag(left)))
    expected = -0.5 * missed @ np.linalg.solve(inside, missed) - 0.5 * log(np.linalg.det(inside))
    assert chance == pytest.approx(expected)


def test_what_was_never_measured_is_the_prior() -> None:
    """After one lone GPU: r = exp(-2) in one node, n = exp(-0.7) between nodes, of its step."""
    model = fit([measured(1, 1, 1, 64.0, 0.2, 0.013)])
    assert (model.local0, model.alone_s) == (64.0, 0.013)
    compute, sync = asked(model, 1, 1, 1, 64)
    assert compute == pytest.approx(0.2, rel=1e-6)
    assert sync == 0.013
    fixed = model.fixed
    t0 = exp(model.compute.terms[0])
    assert t0 == pytest.approx(0.2)
    assert asked(model, 4, 1, 4, 64)[1] == pytest.approx(t0 * exp(-2.0) * 3**0.5)
    assert asked(model, 2, 1, 2, 128)[1] == pytest.approx(t0 * exp(-2.0))
    assert asked(model, 8, 2, 4, 64)[1] == pytest.approx(t0 * exp(-0.7) * 4**0.3)
    assert asked(model, 12, 3, 4, 64)[1] == pytest.approx(t0 * exp(-0.7) * 2**0.3 * 4**0.3)
    ratio = asked(model, 1, 1, 1, 128)[0] / 0.2
    assert ratio == pytest.approx(fixed + (1 - fixed) * 2, rel=0.01)
    assert fixed == pytest.approx(1 / (1 + exp(-0.75)))  # of nine, the nearest to the prior's 0.5


def test_a_share_that_the_batch_does_not_move_is_found() -> None:
    """Nine are tried, from 5 to 95 per cent; the likeliest is taken."""
    shares = step_times.FIXED
    assert shares == pytest.approx([1 / (1 + exp(3 - 0.75 * at)) for at in range(9)])
    for truth in (float(shares[1]), float(shares[4]), float(shares[8])):
        steps = [
            measured(1, 1, 1, local, 0.1 * (truth + (1 - truth) * local / 32), 0.0)
            for local in (32.0, 64.0, 128.0, 256.0, 512.0)
        ]
        assert fit(steps).fixed == pytest.approx(truth)


def test_hope_takes_sds_off_what_was_never_tried() -> None:
    """Off synchronising alone, and none off a lone GPU."""
    steps = [measured(1, 1, 1, 64.0, 0.2, 0.01), measured(2, 1, 2, 64.0, 0.2, 0.02)]
    plain, hopeful = fit(steps), fit(steps, hope=2.0)
    config = [np.array([value]) for value in (8.0, 2.0, 4.0, 64.0)]
    row = step_times._sending(config[0], config[1], config[2], config[3] / 64.0)
    mean, sd = plain.sync.answer(row)
    assert asked(plain, 8, 2, 4, 64)[1] == pytest.approx(exp(mean[0]))
    assert asked(hopeful, 8, 2, 4, 64)[1] == pytest.approx(exp(mean[0] - 2.0 * sd[0]))
    assert asked(hopeful, 1, 1, 1, 64) == asked(plain, 1, 1, 1, 64)


def test_what_a_lone_gpu_waits_is_the_mean_and_no_network_at_all() -> None:
    """0 where none was measured; steps of no synchronising count as a microsecond."""
    lone = [measured(1, 1, 1, 64.0, 0.2, 0.01), measured(1, 1, 1, 32.0, 0.1, 0.03)]
    several = [measured(2, 1, 2, 64.0, 0.2, 0.5)]
    assert fit([*lone, *several]).alone_s == pytest.approx(0.02)
    assert fit(several).alone_s == 0.0
    silent = fit([measured(2, 1, 2, 64.0, 0.2, 0.0)])
    least = fit([measured(2, 1, 2, 64.0, 0.2, 1e-6)])
    assert asked(silent, 2, 1, 2, 64) == asked(least, 2, 1, 2, 64)


def test_the_latest_measurements_count() -> None:
    """32 of them."""
    assert MOST_POINTS == 32
    old, new = measured(1, 1, 1, 16.0, 9.0, 0.0), measured(1, 1, 1, 32.0, 0.1, 0.0)
    assert fit([old, *[new] * 31]).local0 == 16.0
    assert fit([old, *[new] * 32]).local0 == 32.0


@pytest.mark.parametrize(
    "config",
    [
        (0, 1, 1, 1.0, 1.0, 0.0),
        (1, 0, 1, 1.0, 1.0, 0.0),
        (1, 1, 0, 1.0, 1.0, 0.0),
        (1, 1, 1, 0.0, 1.0, 0.0),
        (1, 1, 1, 1.0, 0.0, 0.0),
        (1, 1, 1, 1.0, 1.0, -1e-9),
        (1, 1, 1, 1.0, 1.0, float("nan")),
    ],
)
def test_a_step_that_cannot_be_is_refused(config: tuple[float, ...]) -> None:
    """Each number is looked at; the message shows the measurements."""
    with pytest.raises(InputError, match="above 0 but sync_s: "):
        fit([measured(*config)])  # type: ignore[arg-type]  # counts among floats


def test_nodes_share_what_gradients_take() -> None:
    """Slow links in a node make links between nodes look slow too, with a correlation of 0.6."""
    one = measured(2, 1, 2, 64.0, 0.2, 0.2)
    r = log(0.2) - (log(0.2) - 2.0)  # 2 above the prior's mean
    covariance = 1.5**2 + 0.2**2 + 0.03**2
    expected = log(0.2) - 0.7 + 0.6 * 1.5 * 1.7 * r / covariance
    model = fit([one])
    terms = model.sync.terms + model.sync.covariance @ model.sync.at.T @ model.sync.weights
    assert model.sync.terms[0] == pytest.approx(log(0.2) - 2.0)
    assert terms[2] == pytest.approx(expected)


def test_what_several_gpus_measured_is_in_the_terms_of_synchronising() -> None:
    """One row for each: one node or several, counts less one, the fullest node, the batch."""
    steps = [
        measured(1, 1, 1, 32.0, 0.1, 0.0),
        measured(4, 1, 4, 64.0, 0.2, 0.02),
        measured(12, 3, 5, 32.0, 0.1, 0.05),
    ]
    model = fit(steps)
    assert model.sync.at == pytest.approx(
        np.array(
            [
                [1.0, log(3), 0.0, 0.0, 0.0, log(2)],
                [0.0, 0.0, 1.0, log(2), log(5), 0.0],
            ]
        )
    )
    t0 = model.compute.terms[0]
    assert model.sync.terms == pytest.approx([t0 - 2.0, 0.5, t0 - 0.7, 0.3, 0.3, 0.0])
    sds = np.array([1.5, 0.3, 1.7, 0.3, 0.3, 0.3])
    covariance = np.diag(sds**2)
    covariance[0, 2] = covariance[2, 0] = 0.6 * 1.5 * 1.7
    assert model.sync.covariance == pytest.approx(covariance)
    assert (model.sync.residual_sd, model.compute.residual_sd) == (0.2, 0.08)
    assert model.compute.at == pytest.approx(
        np.array([[1.0, 0.0, 0.0], [1.0, log(4), log(2)], [1.0, log(5), 0.0]])
    )
    assert model.compute.terms[1:].tolist() == [0.05, 0.0]
    assert model.compute.covariance == pytest.approx(np.diag([1.0, 0.0225, 0.0]))
    assert (model.hope, step_times.HOPE) == (0.0, 0.0)


# -- speedup -----------------------------------------------------------------------------------


def speedup(k: float, u: float, g: float, v: float, b: float, *, splits: bool) -> float:
    """The formula of speedup_terms.py, as it stands there."""
    m = 1 / k if splits else 1.0
    work = ((m**g + u) / (1 + u)) ** (1 / g)
    wait = v * 2 * (k - 1) / k * (1 + b * max(k - 2, 0))
    return float((1.0 if splits else k) / (work + wait))


@pytest.mark.parametrize("splits", [True, False])
@pytest.mark.parametrize("k", [1.0, 1.5, 2.0, 3.0, 8.0])
def test_rates_are_their_formula(splits: bool, k: float) -> None:
    """One row a draw of terms, one column a count."""
    draws = [(0.1, 1.3, 0.05, 0.02), (0.5, 0.7, 0.2, 0.3)]
    terms = np.log(np.array(draws))
    rates = np.exp(log_rates(terms, np.array([k, 4.0]), splits=splits))
    waits = waiting(terms, np.array([k, 4.0]), splits=splits)
    for row, draw in enumerate(draws):
        for column, count in enumerate((k, 4.0)):
            assert rates[row, column] == pytest.approx(speedup(count, *draw, splits=splits))
            v, b = draw[2:]
            wait = v * 2 * (count - 1) / count * (1 + b * max(count - 2, 0))
            step = (1.0 if splits else count) / rates[row, column]
            assert waits[row, column] == pytest.approx(wait / step)


def test_priors_are_as_documented() -> None:
    """A tenth of the step does not divide, waiting takes a twentieth: within a factor of five."""
    prior = independent_prior(splits=True, centres=(1.0, 2.0), sds=(3.0, 0.5))
    assert prior.covariance == ((9.0, 0.0), (0.0, 0.25))
    assert (prior.means, prior.noise_log_sd, prior.widen, prior.splits) == (
        (1.0, 2.0),
        0.03,
        1.0,
        True,
    )
    for usual, splits in ((GPUS_SPLIT, True), (GPUS_EACH, False)):
        assert usual.splits is splits
        assert usual.means == (-2.0, 0.2, -3.0, -4.0)
        assert np.sqrt(np.diag(usual.covariance)) == pytest.approx([2.0, 0.7, 1.5, 1.5])
