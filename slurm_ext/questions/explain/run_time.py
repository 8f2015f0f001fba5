"""Expected run time of a job, to stand beside the measured one.

By the model that serves now, from what had ended when the job was submitted: no later job is known.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_ext.history.store.store import History
    from slurm_ext.model.duration.query import DurationQuery


def run_time_of(
    history: "History", ledger: Mapping[str, Any] | None, runs: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """{median_s, mean_s, low_s, high_s, runs, like}, as `predict` tells it; None without a model.

    `ledger`: the decision's row; `runs`: of `history.queries.job`. A damaged model is none.
    """
    models = history.path.parent / "models"
    if not (models / "duration" / "current").exists():
        return None
    query = _asked(ledger, runs)
    return None if query is None else _told(history, models, query)


def _told(history: "History", models: Path, query: "DurationQuery") -> dict[str, Any] | None:
    from slurm_ext.advisor.service.from_history import MOST_ENDED
    from slurm_ext.advisor.what_if.runtime_estimates import runtime_json
    from slurm_ext.core.errors import ModelError
    from slurm_ext.history.views.finished_jobs import newest_finished
    from slurm_ext.model.duration.predictor import load_predictor

    try:
        lengths = load_predictor(models, None)
    except ModelError:
        return None
    if lengths is None or not lengths.knows(query):
        return None
    lengths.take(newest_finished(history, MOST_ENDED, before_s=query.submit_s))
    return runtime_json(lengths.predict([query])[0])


def _asked(
    ledger: Mapping[str, Any] | None, runs: Sequence[Mapping[str, Any]]
) -> "DurationQuery | None":
    """The first run's submission; before there is one, what the decision kept of it."""
    from slurm_ext.model.duration.query import query_of_run

    if runs:
        return query_of_run(runs[0])
    return None if ledger is None else query_of_run({**ledger, "submit_s": ledger["decided_s"]})
