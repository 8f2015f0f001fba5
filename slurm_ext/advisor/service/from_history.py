"""Context of a submission, read from the advisor's files without an advisor.

`dlqueue predict` waits for this: everything is imported where it is used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from slurm_ext.advisor.pipeline.decide import DecisionContext
    from slurm_ext.core.records import Submission
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.model.duration.predictor import RuntimePrediction

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
    from slurm_ext.advisor.pipeline.decide import DecisionContext

    path, models = settings.state_dir / "history.db", settings.state_dir / "models"
    if not path.exists() and not (models / "current").exists():
        return DecisionContext(settings=settings)
    from slurm_ext.core.job_keys import keys_of

    keys = keys_of(job)
    evidence, factor = {}, 1.0
    if path.exists():
        from slurm_ext.advisor.evidence.calibrate import NEWEST, factor_for, factors_of
        from slurm_ext.history.views.lookup import outcomes, similar_runs

        user, account = job.user_name, job.account
        evidence = similar_runs(path, keys, user=user, account=account)
        factor = factor_for(factors_of(outcomes(path, NEWEST)), None, user)
    prior = _prior(models, job, keys)
    return DecisionContext(settings=settings, evidence=evidence, prior=prior, factor=factor)


def _prior(models: "Path", job: "Submission", keys: Any) -> Any:
    """The promoted model's word; numpy is imported only where there is a model."""
    if not (models / "current").exists():
        return None
    from slurm_ext.advisor.evidence.prior import Priors, serving

    return serving(models, Priors()).prior_of(job, keys)
