"""A step's seconds by the formula, term by term."""

from math import exp, log

import numpy as np
import pytest

from slurm_ext.model.arrays import Array
from slurm_ext.model.scaling.prior import DEFAULT_TERMS
from slurm_ext.model.scaling.terms import (
    STEEPEST_OVERLAP,
    TERMS,
    TrainingConfig,
    columns,
    log_step,
    parts,
    slopes,
)

VALUES = {
    "log_step_s": log(0.2),
    "logit_fixed": log(0.25 / 0.75),  # s = 1/4
    "kappa": 0.1,
    "log_one_node": log(0.3),
    "rho": 0.5,
    "log_several": log(0.6),
    "nu": 0.4,
    "eta": 0.2,
    "pair": -0.15,
    "beta": 0.3,
    "log_overlap": log(1.0),  # gamma = 2
}
BATCH0 = 16.0


def terms(**changes: float) -> Array:
    """VALUES in the order of TERMS."""
    return np.array([{**VALUES, **changes}[name] for name in TERMS])


def config(gpus: int, nodes: int, batch: float = 32.0, **placed: tuple[int, ...]) -> TrainingConfig:
    """A layout with its batch per GPU."""
    return TrainingConfig(gpus=gpus, nodes=nodes, local_batch=batch, **placed)


def test_layouts_are_columns() -> None:
    """Spread evenly, fullest first, unless the placement is known."""
    assert config(7, 3).layout == (3, 2, 2)
    assert config(7, 3, placement=(1, 5, 1)).layout == (5, 1, 1)
    rows = columns([config(7, 3), config(1, 1, 16.0)])
    assert rows.tolist() == [
        [pytest.approx(log(32)), 7, 3, 3, 2],
        [pytest.approx(log(16)), 1, 1, 1, 1],
    ]
    assert columns([]).shape == (0, 5)


@pytest.mark.parametrize(
    ("layout", "network"),
    [
        (config(1, 1), 0.0),
        (config(4, 1), 0.3 * 3**0.5),
        (config(2, 2), 0.6),
        (config(8, 2), 0.6 * 4 ** (0.2 - 0.15)),
        (config(12, 3), 0.6 * 2**0.4 * 4**0.2),
        (config(12, 3, placement=(6, 3, 3)), 0.6 * 2**0.4 * 6**0.2),
    ],
)
def test_a_step_is_its_formula(layout: TrainingConfig, network: float) -> None:
    """Computing, the network of one node or several, and their overlap."""
    at = columns([layout])
    most = max(layout.layout)
    compute = 0.2 * (0.25 + 0.75 * 2) * most**0.1
    sent = 0.2 * network * 2**0.3
    logs = parts(terms(), at, log(BATCH0))
    assert exp(logs[0][0]) == pytest.approx(compute)
    assert np.exp(logs[1][0]) == pytest.approx(sent)
    assert logs[2] == pytest.approx(2.0)
    assert exp(log_step(terms(), at, log(BATCH0))[0]) == pytest.approx(
        (compute**2 + sent**2) ** 0.5
    )


def test_overlap_has_a_limit() -> None:
    """Gamma is at most 1 + exp(2.2), whatever the term says."""
    at = columns([config(4, 1)])
    steep = [parts(terms(log_overlap=value), at, 0.0)[2] for value in (STEEPEST_OVERLAP, 9.0)]
    assert steep[0] == steep[1] == pytest.approx(1 + exp(2.2))


def test_slopes_are_differences() -> None:
    """Each slope is the change of log_step with its term, at every kind of layout."""
    at = columns([config(1, 1), config(4, 1, 8.0), config(8, 2, 64.0), config(6, 3, 16.0)])
    middle = terms()
    given = slopes(middle, at, log(BATCH0))
    for slot, name in enumerate(TERMS):
        step = np.zeros(len(TERMS))
        step[slot] = 1e-5
        ends = [log_step(middle + sign * step, at, log(BATCH0)) for sign in (1, -1)]
        assert given[:, slot] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-6), name
    beyond = slopes(terms(log_overlap=STEEPEST_OVERLAP), at, log(BATCH0))
    assert not beyond[:, TERMS.index("log_overlap")].any()


def test_every_term_has_a_default() -> None:
    """Mean and sd of each but the step itself, which is measured."""
    assert set(DEFAULT_TERMS) <= set(TERMS)
