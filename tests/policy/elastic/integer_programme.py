"""The division of GPUs as an integer programme, solved by HiGHS: an oracle for the product's own.

    maximise  sum of utility(job, size)      exactly one size a job, GPUs suffice

As in Sia (Jayaram Subramanya et al., SOSP '23), with GPUs of one type.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp


def best_worth(utility: NDArray[np.float64], sizes: Sequence[int], gpus: int) -> float:
    """The highest sum of utilities (jobs x sizes, -inf: not possible); -inf without a division."""
    jobs = len(utility)
    able = np.argwhere(np.isfinite(utility))
    if not len(able) or len(set(able[:, 0])) < jobs:
        return -np.inf if jobs else 0.0
    one_size = (able[:, 0][None, :] == np.arange(jobs)[:, None]).astype(float)
    taken = np.array(sizes, dtype=float)[able[:, 1]][None, :]
    solution = milp(
        -utility[able[:, 0], able[:, 1]],
        constraints=[LinearConstraint(one_size, 1, 1), LinearConstraint(taken, ub=gpus)],
        integrality=np.ones(len(able)),
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 1e-9},
    )
    return -np.inf if solution.x is None else -float(solution.fun)
