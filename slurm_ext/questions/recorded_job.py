"""The document of `history show`: everything that is kept of one job."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.history.views.visible import Viewer


def document(settings: "Settings", viewer: "Viewer", fields: Mapping[str, Any]) -> dict[str, Any]:
    """`{job_id, runs, decision}` of `job_id`. Raises HistoryError, RefusedError."""
    from slurm_ext.core.errors import HistoryError
    from slurm_ext.history.views.queries import job
    from slurm_ext.history.views.visible import open_visible, refuse_others

    path, wait_ms = settings.state_dir / "history.db", settings["history.busy_timeout_ms"]
    with open_visible(path, viewer, busy_timeout_ms=wait_ms) as history:
        recorded = job(history, fields["job_id"])
    if recorded is None:
        refuse_others(path, viewer, str(fields["job_id"]))
        raise HistoryError(
            f"{path} knows nothing of job {fields['job_id']};"
            " a run is listed once its record has arrived, some seconds after its end"
        )
    return recorded
