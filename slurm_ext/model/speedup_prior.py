"""What is believed of a speed-up curve before its job has run; kept as JSON, no pickle."""

import json
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

from slurm_ext.facts.errors import ModelError
from slurm_ext.model.speedup_terms import TERMS

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedupPrior:
    """Normal beliefs about TERMS, how far measurements stray, and what kind of count it is.

    `splits`: the units share a fixed step (strong scaling); else each brings its own (weak).
    """

    splits: bool
    means: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    noise_log_sd: float  # of one measured rate, beyond what its own repetitions show
    widen: float = 1.0  # of the 90 % interval, from jobs that the prior had not seen
    learnt_from: int = 0  # jobs


def vague(*, splits: bool, centres: tuple[float, ...], sds: tuple[float, ...]) -> SpeedupPrior:
    """Independent beliefs, before anything was learnt."""
    rows = [tuple(sd**2 if i == j else 0.0 for j in range(len(sds))) for i, sd in enumerate(sds)]
    return SpeedupPrior(splits=splits, means=centres, covariance=tuple(rows), noise_log_sd=0.03)


# Centres: GPUs leave a tenth undivided, Amdahl-like, and wait a twentieth of one unit's step for
# each other. Threads slow each other down gradually; how much they wait for a lock or a disk can be
# anything. All are wide: a factor of five either way is nothing unusual.
GPUS_SPLIT = vague(splits=True, centres=(-2.0, 0.2, -3.0, -4.0), sds=(2.0, 0.7, 1.5, 1.5))
GPUS_EACH = vague(splits=False, centres=(-2.0, 0.2, -3.0, -4.0), sds=(2.0, 0.7, 1.5, 1.5))
THREADS = vague(splits=True, centres=(0.0, -0.7, -5.0, -4.0), sds=(2.0, 0.7, 2.0, 2.0))


def to_json(prior: SpeedupPrior) -> str:
    """One line that `from_json` reads again."""
    return json.dumps({"format": FORMAT, "terms": TERMS, **asdict(prior)})


def from_json(text: str, source: str) -> SpeedupPrior:
    """The prior that `to_json` wrote. Raises ModelError naming `source` and what is wrong."""
    try:
        body = json.loads(text)
        if body.pop("format") != FORMAT or body.pop("terms") != list(TERMS):
            raise ModelError(f"{source}: is of another version of dlqueue; learn it again")
        rows = tuple(tuple(float(one) for one in row) for row in body.pop("covariance"))
        means = tuple(float(one) for one in body.pop("means"))
        prior = SpeedupPrior(means=means, covariance=rows, **body)
        _check(prior)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ModelError(f"{source}: is not a speed-up prior: {error}") from None
    return prior


def _check(prior: SpeedupPrior) -> None:
    import numpy as np

    size = len(TERMS)
    square = len(prior.covariance) == size and all(len(row) == size for row in prior.covariance)
    if len(prior.means) != size or not square:
        raise ValueError(f"expected {size} means and a covariance of {size} rows")
    if not all(isfinite(one) for one in (*prior.means, prior.noise_log_sd, prior.widen)):
        raise ValueError("every number has to be finite")
    if prior.noise_log_sd <= 0 or prior.widen <= 0:
        raise ValueError("noise_log_sd and widen have to be above 0")
    if not _positive_definite(np.array(prior.covariance)):
        raise ValueError("the covariance has to be symmetric and positive definite")


def _positive_definite(matrix: Any) -> bool:
    import numpy as np

    return bool(np.allclose(matrix, matrix.T) and np.linalg.eigvalsh(matrix).min() > 0)
