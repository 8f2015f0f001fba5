"""The document of `history ls`: runs, newest first."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.history.views.visible import Viewer


def document(settings: "Settings", viewer: "Viewer", fields: Mapping[str, Any]) -> dict[str, Any]:
    """`{runs}` that the viewer may see; `fields` are those of queries.Filter.

    Raises HistoryError, RefusedError.
    """
    from slurm_ext.history.views.queries import Filter, runs
    from slurm_ext.history.views.visible import open_visible

    if fields.get("user") is not None:
        viewer.must_see(fields["user"])
    path, wait_ms = settings.state_dir / "history.db", settings["history.busy_timeout_ms"]
    with open_visible(path, viewer, busy_timeout_ms=wait_ms) as history:
        return {"runs": list(runs(history, Filter(**fields)))}
