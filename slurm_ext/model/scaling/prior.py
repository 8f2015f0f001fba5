"""Prior of a training's scaling, before it has run."""

from dataclasses import dataclass
from functools import cache
from math import inf

import numpy as np

from slurm_ext.model.arrays import Array
from slurm_ext.model.scaling.similarity import SharedResiduals
from slurm_ext.model.scaling.terms import TERMS

INSIDE, BEYOND = 0, 1  # strata of the interval: not more GPUs and nodes than measured, or more

# (mean, sd) of each term without a fitted family: wide, around usual data-parallel training.
# The first measurement says log_step_s. A network step is a seventh of compute's in one node and
# half of it over two, within a factor of five; both grow less than linearly.
DEFAULT_TERMS = {
    "log_step_s": (0.0, 6.0),
    "logit_fixed": (0.5, 2.5),  # 1 to 99 per cent: small steps hardly feel their batch
    "kappa": (0.05, 0.15),
    "log_one_node": (-2.0, 1.5),
    "rho": (0.5, 0.3),
    "log_several": (-0.7, 1.7),
    "nu": (0.3, 0.3),
    "eta": (0.3, 0.3),
    "pair": (0.0, 0.2),
    "beta": (0.0, 0.15),
    "log_overlap": (-0.5, 1.0),
}
DEFAULT_RESIDUALS = (0.03, 0.02, 0.08, 0.03, 0.04)  # log sds of similarity.PARTS
USUAL_NOISE = 0.03  # log sd of a measurement's own
USUAL_WIDTHS = ((inf, (1.9, 1.9)),)  # Gauss's 1.645 covers 84 to 90 % of measured tables


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class TermPrior:
    """Normal prior of the terms, and of the residuals of steps.

    `own` is the variance of each of similarity.PARTS; `log_batch0` the reference batch's
    logarithm, None: the smallest batch measured.
    """

    means: Array
    covariance: Array
    own: Array
    noise_sd: float
    others: SharedResiduals | None = None
    log_batch0: float | None = None


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class ScalingPrior:
    """Mixture of priors, and the scales that a training's residuals may have.

    Each row of `scales` multiplies sds: (batch, layout, noise); `chances` are theirs. `widths` are
    half widths of the 90 % interval in sds, by (up to so many points, (INSIDE, BEYOND)).
    """

    components: tuple[TermPrior, ...]
    scales: Array
    chances: Array
    widths: tuple[tuple[float, tuple[float, float]], ...]

    def width(self, points: int, stratum: int) -> float:
        """Half width of the 90 % interval, in sds, after so many measurements."""
        widths = next((by for most, by in self.widths if points <= most), self.widths[-1][1])
        return widths[stratum]


@cache
def default_term_prior() -> TermPrior:
    """Prior without a fitted family."""
    means, sds = np.array([DEFAULT_TERMS[term] for term in TERMS]).T
    return TermPrior(
        means=means,
        covariance=np.diag(sds**2),
        own=np.array(DEFAULT_RESIDUALS) ** 2,
        noise_sd=USUAL_NOISE,
    )


@cache
def default_prior() -> ScalingPrior:
    """Prior without a fitted family."""
    return ScalingPrior(
        components=(default_term_prior(),),
        scales=np.ones((1, 3)),
        chances=np.ones(1),
        widths=USUAL_WIDTHS,
    )
