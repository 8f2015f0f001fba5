"""Partial pooling: near runs, shrunk towards farther ones and the prior.

Each level's runs are draws around that group's own mean. The groups' means are draws from what
the next farther level predicts. So one near run already outweighs many far ones, and with no near
run the far ones answer, as widely as they differ among themselves.
"""

from collections.abc import Sequence
from math import inf, sqrt

from slurm_ext.core.records import Level
from slurm_ext.model.throughput.inversion import LogNormal

NEWER = 0.9  # weight of a run against the next newer one
PRIOR_RUNS = 2.0  # how many runs the spreads below count for; what is seen takes over from there

# Log spread among the runs of one group before any is seen, that the group's own spread corrects as
# runs arrive. The nearest is what contrib/bench/accuracy shows from run to run; the others are
# assumptions, wide on purpose.
SPREAD = {
    Level.SCRIPT_ARGS: 0.04,
    Level.SCRIPT: 0.25,
    Level.USER_NAME: 0.4,
    Level.OWN_KIND: 0.6,
    Level.ACCOUNT_KIND: 0.6,
    Level.KIND: 0.6,
    Level.CLUSTER: 1.5,
}
OTHER_MODEL_SD = 0.5  # of the accelerator alone, on GPUs of another model

NOTHING = LogNormal(0.0, inf)


def pooled(
    farther: LogNormal, runs: Sequence[LogNormal], level: Level, widest: float = inf
) -> LogNormal:
    """Predict the next run of this group from its runs `seen` (newest first).

    `farther` is the same for the group around it, or NOTHING. `widest` bounds the spread assumed
    before any run: of a quantity that hardly differs from job to job.
    """
    if not runs:
        return farther
    weights = [NEWER**age for age in range(len(runs))]
    total = sum(weights)
    mean = sum(w * b.log_mean for w, b in zip(weights, runs, strict=True)) / total
    doubt = sum(w * b.log_sd**2 for w, b in zip(weights, runs, strict=True)) / total
    scatter = sum(w * (b.log_mean - mean) ** 2 for w, b in zip(weights, runs, strict=True))
    effective = total**2 / sum(w * w for w in weights)
    spread = (PRIOR_RUNS * min(SPREAD[level], widest) ** 2 + scatter) / (PRIOR_RUNS + effective - 1)
    own = (spread + doubt) / effective
    trust = 0.0 if farther.log_sd == inf else own / (own + farther.log_sd**2)
    middle = mean + trust * (farther.log_mean - mean)
    return LogNormal(middle, sqrt(own * (1 - trust) + spread))
