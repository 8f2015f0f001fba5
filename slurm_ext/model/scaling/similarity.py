"""Similarity of two configs in the residuals of their steps: covariances, in logs.

Five parts of a residual, each similar for configs near each other in its own sense:

    batch        smooth in the batch
    same_batch   shared by all configs of exactly this batch (kernels' tiling, an input's shape)
    layout       smooth in GPUs, nodes and GPUs a node; none between one node and several
    same_layout  shared by all configs of exactly these counts
    both         smooth in all of them at once

A training's own part is the batch's and the layout's, each with a scale of its own; the part
that it shares with other trainings (same model elsewhere, other models here) is known.
"""

from dataclasses import dataclass

import numpy as np

from slurm_ext.model.arrays import Array

PARTS = ("batch", "same_batch", "layout", "same_layout", "both")
BATCH_REACH = 1.5  # natural logs: how far apart batches still have similar residuals
LAYOUT_REACH = 1.0
BATCH_HALF = (1.0, 1.0, 0.0, 0.0, 0.5)  # of each part, what is scaled with the batch's residual
LAYOUT_HALF = (0.0, 0.0, 1.0, 1.0, 0.5)


def similarity(left: Array, right: Array) -> Array:
    """Correlation of each of PARTS between rows of columns(): (parts, left, right)."""
    batch = left[:, None, 0] - right[None, :, 0]
    logs = np.log(left[:, 1:4])[:, None] - np.log(right[:, 1:4])[None]
    crossing = (left[:, None, 2] > 1) != (right[None, :, 2] > 1)
    near_batch = np.exp(-0.5 * (batch / BATCH_REACH) ** 2)
    near_layout = np.where(crossing, 0.0, np.exp(-0.5 * (logs**2).sum(-1) / LAYOUT_REACH**2))
    same_layout = (left[:, None, 1:] == right[None, :, 1:]).all(-1)
    same_batch = np.abs(batch) < 1e-9
    return np.stack((near_batch, same_batch, near_layout, same_layout, near_batch * near_layout))


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class SharedResiduals:
    """Residuals of other trainings, and the part of them that a training shares.

    `at`: their columns(); `shared`: variance shared with each of them, by (PARTS, others);
    `common`: variance of each of PARTS that others may share; `solved` and `weights`: the inverse
    covariance of all that they showed, and its product with it.
    """

    at: Array
    shared: Array
    common: Array
    solved: Array
    weights: Array

    def toward(self, at: Array) -> Array:
        """Covariance of each row with each of the others."""
        return np.asarray(
            (similarity(at, self.at) * self.shared[:, None, :]).sum(0), dtype=np.float64
        )


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class ResidualPrior:
    """Expected residuals of rows given those of other trainings, and their covariance.

    `expected` and `alone` (variances of the shared part) by row of the left; `shared`, `batch` and
    `layout` are covariances with the rows of the right.
    """

    expected: Array
    alone: Array
    shared: Array
    batch: Array
    layout: Array

    def covariance(self, scale: Array) -> Array:
        """With the training's own sds times `scale`: (batch, layout, noise), noise left out."""
        batch, layout = float(scale[0]) ** 2, float(scale[1]) ** 2
        return self.shared + batch * self.batch + layout * self.layout


def residual_prior(
    own: Array, others: SharedResiduals | None, left: Array, right: Array
) -> ResidualPrior:
    """Between rows of columns(); `own` is the variance of each of PARTS."""
    near = similarity(left, right)
    batch = np.tensordot(own * np.array(BATCH_HALF), near, 1)
    layout = np.tensordot(own * np.array(LAYOUT_HALF), near, 1)
    if others is None:
        nothing = np.zeros(len(left))
        return ResidualPrior(
            expected=nothing, alone=nothing, shared=0 * batch, batch=batch, layout=layout
        )
    toward = others.toward(left)
    solved = toward @ others.solved
    from_right = toward if left is right else others.toward(right)
    return ResidualPrior(
        expected=toward @ others.weights,
        alone=np.maximum(others.common.sum() - (solved * toward).sum(1), 0),
        shared=np.tensordot(others.common, near, 1) - solved @ from_right.T,
        batch=batch,
        layout=layout,
    )
