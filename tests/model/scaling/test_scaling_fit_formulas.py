"""Similar residuals and the most probable terms of a training by their formulas."""

from math import exp, log, sqrt

import numpy as np
import pytest

from slurm_ext.model.scaling import laplace
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
from slurm_ext.model.scaling.terms import TERMS, log_step, slopes

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
