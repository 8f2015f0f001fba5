"""The document of `jobs`: a user's last jobs with what was used of what they held."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.history.views.visible import Viewer


def document(settings: "Settings", viewer: "Viewer", fields: Mapping[str, Any]) -> dict[str, Any]:
    """`{v, jobs}` (history/views/job_efficiency.py), of the viewer unless others are asked for.

    `fields`: those of JobFilter, `everybody` and `limit`.
    Raises UsageError, HistoryError, RefusedError.
    """
    from slurm_ext.history.views.job_efficiency import JobFilter, newest_jobs
    from slurm_ext.history.views.visible import open_visible
    from slurm_ext.questions.explain.named import parse_jobs

    user = None if fields.get("everybody") else fields.get("user") or viewer.user
    viewer.must_see(user)
    chosen = JobFilter(
        user=user,
        partition=fields.get("partition"),
        since_s=fields.get("since_s"),
        states=fields.get("states") or (),
        nodes=fields.get("nodes") or (),
        jobs=parse_jobs(fields.get("jobs") or ()),
    )
    path, wait_ms = settings.state_dir / "history.db", settings["history.busy_timeout_ms"]
    with open_visible(path, viewer, busy_timeout_ms=wait_ms) as history:
        return {"v": 1, "jobs": newest_jobs(history, chosen, fields["limit"])}
