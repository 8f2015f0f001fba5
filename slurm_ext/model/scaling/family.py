"""Hierarchical normal model (in logs) of many trainings: the prior of the next one.

Each term of terms.py, and each part of the residuals, is a sum of a share that all trainings have,
one of the model wherever it runs, one of the cluster for all that runs there, and the training's
own. Conditioned on rows of measured trainings, linearized around their own most probable terms.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slurm_ext.model.arrays import Array
from slurm_ext.model.scaling.prior import ScalingPrior, TermPrior, default_term_prior
from slurm_ext.model.scaling.similarity import SharedResiduals, similarity

LEVELS = ("all", "model", "cluster", "own")
OWN = LEVELS.index("own")


@dataclass(frozen=True, eq=False, kw_only=True)
class Family:
    """Measured trainings and the variances of what they share; written by training/scaling/fit.py.

    By row of measurement: `at` (columns()), `logs` (log step, made linear, less what the usual
    means say), `slopes`, and `model` and `cluster`, places in the two lists of names. `log_batch0`
    is by model. `terms` and `parts` are variances by (term or part, LEVELS).
    """

    models: tuple[str, ...]
    clusters: tuple[str, ...]
    log_batch0: Array
    model: Array
    cluster: Array
    at: Array
    logs: Array
    slopes: Array
    terms: Array
    parts: Array
    noise_sd: float
    scales: Array
    chances: Array
    widths: tuple[tuple[float, tuple[float, float]], ...]

    @cached_property
    def solved(self) -> Array:
        """Inverse covariance of all rows."""
        levels = same_group(self.model, self.cluster, self.model, self.cluster)
        whole = self.noise_sd**2 * np.eye(len(self.at))
        for term, variances in zip(self.slopes.T, self.terms, strict=True):
            whole += np.outer(term, term) * np.tensordot(variances, levels, 1)
        for near, variances in zip(similarity(self.at, self.at), self.parts, strict=True):
            whole += near * np.tensordot(variances, levels, 1)
        return np.asarray(np.linalg.inv(whole), dtype=np.float64)

    def prior(self, *, model: str, cluster: str) -> ScalingPrior:
        """Prior of a training of `model` on `cluster`, either of which may be new.

        It mixes the family's prior with the default one: a training may be unlike all others.
        """
        return ScalingPrior(
            components=(self.term_prior(model=model, cluster=cluster), default_term_prior()),
            scales=self.scales,
            chances=self.chances,
            widths=self.widths,
        )

    def term_prior(self, *, model: str, cluster: str) -> TermPrior:
        """The family's own part of the prior, without the default one."""
        levels = same_group(
            np.array([_place(self.models, model)]),
            np.array([_place(self.clusters, cluster)]),
            self.model,
            self.cluster,
        )[:OWN, 0]
        weights = self.solved @ self.logs
        toward = (self.terms[:, :OWN] @ levels) * self.slopes.T
        is_member = model in self.models
        return TermPrior(
            means=default_term_prior().means + toward @ weights,
            covariance=np.diag(self.terms.sum(1)) - toward @ self.solved @ toward.T,
            own=self.parts[:, OWN],
            noise_sd=self.noise_sd,
            log_batch0=float(self.log_batch0[self.models.index(model)]) if is_member else None,
            others=SharedResiduals(
                at=self.at,
                shared=self.parts[:, :OWN] @ levels,
                common=self.parts[:, :OWN].sum(1),
                solved=self.solved,
                weights=weights,
            ),
        )


def same_group(model: Array, cluster: Array, other_model: Array, other_cluster: Array) -> Array:
    """Return 1 where two rows share a level, else 0: (levels, rows, others)."""
    same_model = model[:, None] == other_model[None]
    same_cluster = cluster[:, None] == other_cluster[None]
    everybody = np.ones(same_model.shape, dtype=bool)
    return np.stack((everybody, same_model, same_cluster, same_model & same_cluster)).astype(float)


def _place(names: tuple[str, ...], name: str) -> int:
    """Index of the name; -1, which no row has, if it is not there."""
    return names.index(name) if name in names else -1
