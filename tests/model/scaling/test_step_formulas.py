"""Steps from a job's own measurements, and speedups over counts, by their formulas."""

from math import exp, log

import numpy as np
import pytest

from slurm_ext.core.errors import InputError
from slurm_ext.model.scaling import goodput_speed as step_times
from slurm_ext.model.scaling.goodput_speed import MOST_POINTS, StepMeasurement, fit, regress
from slurm_ext.model.scaling.speedup_terms import (
    GPUS_EACH,
    GPUS_SPLIT,
    independent_prior,
    log_rates,
    waiting,
)


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
