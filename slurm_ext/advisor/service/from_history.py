"""Context of a submission, read from the advisor's files without an advisor.

`dlqueue predict` waits for this: everything is imported where it is used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from sqlite3 import Connection

    from slurm_ext.advisor.evidence.standing import Standing
    from slurm_ext.advisor.pipeline.context import DecisionContext
    from slurm_ext.core.records import Level, LoaderRun, Submission
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.model.duration.predictor import RuntimePrediction
    from slurm_ext.model.throughput.receiving import ReceiveTimes

MOST_ENDED = 10_000  # jobs that a command without an advisor reads for run times: half a second


def runtime_from_history(settings: "Settings", job: "Submission") -> "RuntimePrediction | None":
    """Predict the run time by the promoted model; None without one. Raises HistoryError."""
    if not (settings.state_dir / "models" / "duration" / "current").exists():
        return None
    import time
    from contextlib import suppress

    from slurm_ext.advisor.what_if.runtime_estimates import RuntimeEstimator
    from slurm_ext.core.errors import ModelError

    run_times = RuntimeEstimator()
    with suppress(ModelError):  # a damaged one serves nobody; `dlqueue train` replaces it
        run_times.look(settings.state_dir, MOST_ENDED)
    return run_times.of(job, time.time())


def context_from_history(settings: "Settings", job: "Submission") -> "DecisionContext":
    """Read the context from the history's file and the promoted model. Raises HistoryError."""
    from slurm_ext.advisor.pipeline.context import DecisionContext

    path, models = settings.state_dir / "history.db", settings.state_dir / "models"
    if not path.exists() and not (models / "current").exists():
        return DecisionContext(settings=settings)
    from slurm_ext.core.job_keys import keys_of

    keys = keys_of(job)
    evidence, factor, beside, stopped = {}, 1.0, 1.0, ""
    receives: ReceiveTimes = ()
    if path.exists():
        from contextlib import closing

        from slurm_ext.history.store.reading import connect
        from slurm_ext.history.views.lookup import runs_with_workers, similar_runs

        user, account = job.user_name, job.account
        with closing(connect(path)) as conn:
            evidence = similar_runs(conn, path, keys, user=user, account=account)
            standing = _standing(conn, path, job, keys)
            receives = _receives(runs_with_workers(conn, path, user))
        factor, beside, stopped = standing.factor, standing.factor_beside, standing.stopped
    prior = _prior(models, job, keys)
    return DecisionContext(
        settings=settings,
        evidence=evidence,
        prior=prior,
        factor=factor,
        factor_beside=beside,
        stopped=stopped,
        receives=receives,
    )


def _receives(runs: "Sequence[LoaderRun]") -> "ReceiveTimes":
    """Receive times of the user's runs; the model is imported only where there are any."""
    if not runs:
        return ()
    from slurm_ext.model.throughput.receiving import of_user

    return of_user(runs)


def _standing(
    conn: "Connection", path: "Path", job: "Submission", keys: "Mapping[Level, int]"
) -> "Standing":
    """Judge the job by the outcomes in the history, as the advisor does from memory."""
    from slurm_ext.advisor.evidence.calibrate import NEWEST, factor_for, factors_of
    from slurm_ext.advisor.evidence.standing import (
        Standings,
        site_standing,
        standing_of,
        standing_of_user,
    )
    from slurm_ext.history.views.outcomes import fair_outcomes, outcomes_of_user

    user = job.user_name
    newest = fair_outcomes(conn, path, NEWEST)
    own = standing_of_user(outcomes_of_user(conn, path, user))
    known = Standings({user: own}, site_standing(newest))
    factors = factors_of(newest)
    widths = [factor_for(factors, None, user, crowded=which) for which in (False, True)]
    return standing_of(known, keys, user, job.partition, *widths)


def _prior(models: "Path", job: "Submission", keys: Any) -> Any:
    """The promoted model's word; numpy is imported only where there is a model."""
    if not (models / "current").exists():
        return None
    from slurm_ext.advisor.evidence.prior import Priors, serving

    return serving(models, Priors()).prior_of(job, keys)
