"""Seconds of a data-parallel training step, by physics: what it computes and what it sends.

K GPUs on N nodes, g of them on the fullest node, m samples a GPU; m0 is a reference batch:

    compute = t0 * (s + (1 - s) * m/m0) * g^kappa        GPUs of one node share its CPUs and disks
    network = 0                                K = 1
              t0 * r * (K - 1)^rho * (m/m0)^beta          one node
              t0 * n * (N - 1)^nu * g^eta * (m/m0)^beta   several: g GPUs share a node's link
              ... * g^pair                    exactly two nodes: one flow each way, not many
    step    = (compute^gamma + network^gamma)^(1/gamma)   gamma 1: in turn; 10: overlapped

The two ends of gamma, and one node apart from several, are Pollux's (Qiao et al., OSDI 2021);
powers of K, N and g stand for its straight lines, because real networks saturate.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slurm_ext.model.arrays import Array

TERMS = (
    "log_step_s",  # log t0
    "logit_fixed",  # of s
    "kappa",
    "log_one_node",  # log r
    "rho",
    "log_several",  # log n
    "nu",
    "eta",
    "pair",
    "beta",
    "log_overlap",  # log (gamma - 1)
)
STEEPEST_OVERLAP = 2.2  # log (gamma - 1): gamma is at most 10, as in Pollux


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingConfig:
    """Layout of a data-parallel training: GPUs, their nodes, samples per GPU and step.

    `placement` is the GPUs on each node where that is known; else they are taken as spread evenly.
    """

    gpus: int
    nodes: int
    local_batch: float
    placement: tuple[int, ...] | None = None

    @property
    def layout(self) -> tuple[int, ...]:
        """GPUs on each node, fullest first."""
        if self.placement:
            return tuple(sorted(self.placement, reverse=True))
        per_node, over = divmod(self.gpus, self.nodes)
        return tuple(per_node + (node < over) for node in range(self.nodes))


def columns(configs: Sequence[TrainingConfig]) -> Array:
    """One row a config: log batch, GPUs, nodes, most and fewest GPUs on a node."""
    rows = []
    for config in configs:
        layout = config.layout
        rows.append(
            (np.log(config.local_batch), sum(layout), len(layout), max(layout), min(layout))
        )
    return np.array(rows, dtype=np.float64).reshape(len(rows), 5)


def parts(terms: Array, at: Array, log_batch0: float) -> tuple[Array, Array, float]:
    """Log compute seconds and log network seconds (-inf: none) for each row of `at`, and gamma."""
    batch, gpus, nodes, most = at[:, 0] - log_batch0, at[:, 1], at[:, 2], at[:, 3]
    t0, fixed, kappa, one, rho, several, nu, eta, pair, beta, overlap = terms
    share = 1 / (1 + np.exp(-fixed))
    growth = np.log(share + (1 - share) * np.exp(np.clip(batch, -30, 30)))
    compute = t0 + growth + kappa * np.log(most)
    inside = one + rho * np.log(np.maximum(gpus - 1, 1))
    across = (
        several + nu * np.log(np.maximum(nodes - 1, 1)) + (eta + pair * (nodes == 2)) * np.log(most)
    )
    network = t0 + np.where(nodes > 1, across, inside) + beta * batch
    gamma = 1 + np.exp(min(float(overlap), STEEPEST_OVERLAP))
    return compute, np.where(gpus > 1, network, -np.inf), float(gamma)


def log_step(terms: Array, at: Array, log_batch0: float) -> Array:
    """Log seconds of a step for each row of `at` (see `columns`)."""
    compute, network, gamma = parts(terms, at, log_batch0)
    return np.logaddexp(gamma * compute, gamma * network) / gamma


def slopes(terms: Array, at: Array, log_batch0: float) -> Array:
    """Change of log_step with each of TERMS, one row a config."""
    compute, network, gamma = parts(terms, at, log_batch0)
    whole = np.logaddexp(gamma * compute, gamma * network) / gamma
    computing = np.exp(gamma * (compute - whole))  # the step's elasticity to its compute time
    sending = 1 - computing
    batch, gpus, nodes, most = at[:, 0] - log_batch0, at[:, 1], at[:, 2], at[:, 3]
    share, grown = 1 / (1 + np.exp(-terms[1])), np.exp(np.clip(batch, -30, 30))
    several = sending * (nodes > 1)
    one = sending - several
    mean = computing * compute + np.where(sending > 0, sending * np.where(gpus > 1, network, 0), 0)
    bends = terms[10] < STEEPEST_OVERLAP
    out = (
        np.ones(len(at)),
        computing * share * (1 - share) * (1 - grown) / (share + (1 - share) * grown),
        computing * np.log(most),
        one,
        one * np.log(np.maximum(gpus - 1, 1)),
        several,
        several * np.log(np.maximum(nodes - 1, 1)),
        several * np.log(most),
        several * (nodes == 2) * np.log(most),
        sending * batch,
        (mean - whole) * (gamma - 1) / gamma * bends,
    )
    return np.stack(out, axis=1)
