"""Prior of a speed-up curve, before its job has run."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedupPrior:
    """Normal prior of TERMS, noise of a measurement, and the kind of scaling.

    `splits`: the units share a fixed step (strong scaling); else each brings its own (weak).
    """

    splits: bool
    means: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    noise_log_sd: float  # of one measured rate, beyond what its own repetitions show
    widen: float = 1.0  # factor on the 90 % interval, from held-out jobs


def independent_prior(
    *, splits: bool, centres: tuple[float, ...], sds: tuple[float, ...]
) -> SpeedupPrior:
    """Independent terms, before anything was learned."""
    rows = [tuple(sd**2 if i == j else 0.0 for j in range(len(sds))) for i, sd in enumerate(sds)]
    return SpeedupPrior(splits=splits, means=centres, covariance=tuple(rows), noise_log_sd=0.03)


# Centres: a tenth of the step does not divide (Amdahl's law), and waiting takes a twentieth of one
# unit's step. All are wide: a factor of five either way is not unusual.
GPUS_SPLIT = independent_prior(
    splits=True, centres=(-2.0, 0.2, -3.0, -4.0), sds=(2.0, 0.7, 1.5, 1.5)
)
GPUS_EACH = independent_prior(
    splits=False, centres=(-2.0, 0.2, -3.0, -4.0), sds=(2.0, 0.7, 1.5, 1.5)
)
