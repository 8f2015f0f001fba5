"""The runs behind a prediction, as far as who asks may see them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_ext.core.records import Submission
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.history.views.visible import Viewer


def past_of(
    settings: "Settings", viewer: "Viewer", level: str | None, job: "Submission"
) -> list[dict[str, Any]] | None:
    """The newest runs alike at `level` (history/views/recent_runs.py); None: unreadable."""
    from slurm_ext.core.errors import HistoryError, NoHistoryError
    from slurm_ext.core.job_keys import keys_of
    from slurm_ext.core.records import Level
    from slurm_ext.history.views.recent_runs import recent_runs
    from slurm_ext.history.views.visible import open_visible

    if level is None:
        return []
    owner = job.account if level == Level.ACCOUNT_KIND.value else job.user_name
    path, wait_ms = settings.state_dir / "history.db", settings["history.busy_timeout_ms"]
    try:
        with open_visible(path, viewer, busy_timeout_ms=wait_ms) as history:
            return recent_runs(history.conn, level, keys_of(job), owner=owner)
    except NoHistoryError:
        return []
    except HistoryError:
        return None
