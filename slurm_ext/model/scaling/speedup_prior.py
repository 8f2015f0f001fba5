"""What is believed of a speed-up curve before its job has run."""

from dataclasses import dataclass


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


def independent_prior(
    *, splits: bool, centres: tuple[float, ...], sds: tuple[float, ...]
) -> SpeedupPrior:
    """Independent beliefs, before anything was learnt."""
    rows = [tuple(sd**2 if i == j else 0.0 for j in range(len(sds))) for i, sd in enumerate(sds)]
    return SpeedupPrior(splits=splits, means=centres, covariance=tuple(rows), noise_log_sd=0.03)


# Centres: GPUs leave a tenth undivided, Amdahl-like, and wait a twentieth of one unit's step for
# each other. Threads slow each other down gradually; how much they wait for a lock or a disk can be
# anything. All are wide: a factor of five either way is nothing unusual.
GPUS_SPLIT = independent_prior(
    splits=True, centres=(-2.0, 0.2, -3.0, -4.0), sds=(2.0, 0.7, 1.5, 1.5)
)
GPUS_EACH = independent_prior(
    splits=False, centres=(-2.0, 0.2, -3.0, -4.0), sds=(2.0, 0.7, 1.5, 1.5)
)
THREADS = independent_prior(splits=True, centres=(0.0, -0.7, -5.0, -4.0), sds=(2.0, 0.7, 2.0, 2.0))
