from math import exp, inf

import numpy as np
import pytest

from contrib.bench.throughput.scale import fit_prior
from contrib.bench.throughput.scale.fit_prior import EXPECTED, Jobs, calibrated, learn, widening
from slurm_ext.model.scaling import sampling
from slurm_ext.model.scaling.speedup import CountMeasurement, fit
from slurm_ext.model.scaling.speedup_terms import GPUS_SPLIT

COUNTS = (1, 2, 4, 8, 16)


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer draws: near enough, and quick."""
    monkeypatch.setattr(sampling, "DRAWS", 400)


def floors(jobs: int, seed: int, noise: float = 0.01) -> Jobs:
    """Jobs whose steps stop shrinking suddenly, each at a floor of its own."""
    dice = np.random.default_rng(seed)
    return {
        f"job {number}": [[_floored(k, floor, dice, noise) for k in COUNTS]]
        for number, floor in enumerate(dice.uniform(0.1, 0.4, jobs))
    }


def _floored(count: int, floor: float, dice: np.random.Generator, noise: float) -> CountMeasurement:
    seconds = ((1 / count) ** 4 + floor**4) ** 0.25
    return CountMeasurement(count=count, rate=exp(noise * dice.standard_normal()) / seconds)


def miss(jobs: Jobs, prior_of: object) -> float:
    """Mean absolute log error at the counts beyond 2, from 1 and 2."""
    errors = []
    for series in jobs.values():
        for points in series:
            fitted = fit(points[:2], prior_of)  # type: ignore[arg-type]  # a prior
            errors += [abs(np.log(fitted.rate(one.count)[0] / one.rate)) for one in points[2:]]
    return float(np.mean(errors))


def test_what_jobs_have_in_common_helps_the_next() -> None:
    """Jobs not learnt from are told better by a learnt prior than by the one before."""
    prior = learn(floors(8, seed=1), GPUS_SPLIT)
    unseen = floors(6, seed=2)
    assert miss(unseen, prior) < 0.85 * miss(unseen, GPUS_SPLIT)


def test_nothing_is_learnt_from_nothing() -> None:
    """Without jobs the prior stays, and its interval too."""
    assert learn({}, GPUS_SPLIT) == GPUS_SPLIT
    assert calibrated({}, GPUS_SPLIT, seen=4) == GPUS_SPLIT


def test_few_jobs_hardly_narrow_an_interval() -> None:
    """Jobs that went well are proof by their number, not by how many counts they have."""
    well = [0.2] * 40
    assert 0.6 < widening(well, jobs=2) < 1
    assert widening(well, jobs=2) == pytest.approx(widening(well[:4], jobs=2), abs=0.02)
    assert widening(well, jobs=40) < 0.7 * widening(well, jobs=2)


def test_a_job_that_went_badly_widens_within_measure() -> None:
    """Misses beyond all measure, even infinite ones, are believed up to a factor of five."""
    assert 1 < widening([0.5] * 10 + [3.0] * 2, jobs=6) < 3
    assert widening([inf] * 8, jobs=20) == 5


def test_a_prior_that_did_justice_stays_as_wide() -> None:
    """Misses as they should be, or none, change nothing."""
    assert widening([], jobs=3) == 1
    assert widening(list(EXPECTED), jobs=8) == pytest.approx(1, abs=0.01)


def test_many_outcomes_make_intervals_honest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of jobs not learnt from, about nine in ten counts fall inside the interval."""
    monkeypatch.setattr(fit_prior, "ROUNDS", 2)  # near enough, and quick
    monkeypatch.setattr(fit_prior, "FOLDS", 3)
    prior = calibrated(floors(9, seed=4, noise=0.03), GPUS_SPLIT, seen=4)
    inside = []
    for series in floors(20, seed=5, noise=0.03).values():
        fitted = fit(series[0][:3], prior)
        for one in series[0][3:]:
            _, interval = fitted.rate(one.count)
            inside.append(interval.low <= one.rate <= interval.high)
    assert 0.8 <= np.mean(inside) <= 1


def test_a_job_with_many_series_counts_once() -> None:
    """Ten equal series of a job teach what one of them does."""
    one = floors(1, seed=6)
    ten = {name: list(series) * 10 for name, series in one.items()}
    once, often = learn(one, GPUS_SPLIT), learn(ten, GPUS_SPLIT)
    assert np.allclose(once.means, often.means)
    assert np.allclose(once.covariance, often.covariance)
