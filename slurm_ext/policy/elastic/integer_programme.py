"""How many GPUs of which type each job gets: an integer programme, solved by HiGHS. Pure.

    maximise  sum of utility(job, type, size)      at most one (type, size) a job, GPUs of each type

As in Sia (Jayaram Subramanya et al., SOSP '23). With one type elastic.divide is exact and faster.
scipy brings the solver; it is imported only here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slurm_ext.core.errors import InputError, MissingError

Floats = NDArray[np.float64]
MOST_S, GAP = 5.0, 1e-4  # the solver's time, and how near to the best it has to come


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Kind:
    """GPUs of one type, and what jobs would make of its sizes."""

    name: str
    gpus: int
    sizes: Sequence[int]
    utility: Floats  # jobs x sizes; -inf: it cannot have that


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What one job gets."""

    kind: str
    gpus: int


def assign(kinds: Sequence[Kind], left_out: float) -> list[Given | None]:
    """The best assignment; a job that gets nothing counts `left_out` and is None.

    Raises InputError where utilities do not fit each other or no assignment exists, MissingError
    where scipy is not installed.
    """
    jobs = _jobs(kinds)
    variables = [
        (job, place, column)
        for place, kind in enumerate(kinds)
        for job, column in np.argwhere(np.isfinite(kind.utility))
    ]
    if not jobs or not variables:
        return [None] * jobs
    gains = np.array([kinds[p].utility[job, column] - left_out for job, p, column in variables])
    taken = _solved(gains, variables, kinds, jobs)
    out: list[Given | None] = [None] * jobs
    for at in np.flatnonzero(taken > 0.5):
        job, place, column = variables[at]
        out[job] = Given(kind=kinds[place].name, gpus=int(kinds[place].sizes[column]))
    return out


def _jobs(kinds: Sequence[Kind]) -> int:
    counts = {len(kind.utility) for kind in kinds}
    if len(counts) != 1 or any(k.utility.shape[1:] != (len(k.sizes),) for k in kinds):
        raise InputError("types", "expected utilities of the same jobs for each type and size")
    if any(kind.gpus < 0 or min(kind.sizes, default=1) < 1 for kind in kinds):
        raise InputError("types", "expected GPUs and sizes above 0")
    return counts.pop()


def _solved(
    gains: Floats, variables: Sequence[tuple[int, int, int]], kinds: Sequence[Kind], jobs: int
) -> Floats:
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import coo_array
    except ImportError:
        raise MissingError("scipy is not installed", "pip install 'dlqueue[train]'") from None
    count = len(variables)
    sizes = [float(kinds[place].sizes[column]) for _, place, column in variables]
    rows = [job for job, _, _ in variables] + [jobs + place for _, place, _ in variables]
    entries = (np.array([1.0] * count + sizes), (rows, [*range(count)] * 2))
    matrix = coo_array(entries, shape=(jobs + len(kinds), count)).tocsr()
    most = np.array([1.0] * jobs + [float(kind.gpus) for kind in kinds])
    found = milp(
        -gains,
        constraints=LinearConstraint(matrix, ub=most),
        integrality=np.ones(count),
        bounds=Bounds(0, 1),
        options={"time_limit": MOST_S, "mip_rel_gap": GAP},
    )
    if found.x is None:
        raise InputError("types", f"no assignment: {found.message}")
    solution: Floats = found.x
    return solution
