"""Documents that commands print, by kind: the same here and over the network."""

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.history.views.visible import Viewer

KINDS: Mapping[str, str] = {
    "explain": "slurm_ext.questions.explain.document",
    "jobs": "slurm_ext.questions.jobs",
    "history_runs": "slurm_ext.questions.recorded_runs",
    "history_job": "slurm_ext.questions.recorded_job",
    "ranks": "slurm_ext.questions.recommend.ranks",
    "nodes": "slurm_ext.questions.recommend.nodes",
}
"""Modules whose `document` answers; each is imported when it is first asked for."""
Answering = Callable[["Settings", "Viewer", Mapping[str, Any]], dict[str, Any]]


def document_of(settings: "Settings", kind: str, **fields: Any) -> dict[str, Any]:
    """The answer to a question of this user: by the history here, else the advisor's.

    Raises DlqueueError.
    """
    if has_history(settings):
        return document_for(settings, viewer_here(), kind, fields)
    from slurm_ext.core.errors import AdvisorError, HistoryError
    from slurm_ext.questions.addresses import AdvisorAddresses
    from slurm_ext.questions.client import ask

    addresses, away = AdvisorAddresses(settings), None
    try:
        if addresses.all:
            return ask(addresses, kind, fields)
    except AdvisorError as error:
        if addresses.configured:
            raise
        away = error  # Slurm's controller need not have an advisor for questions
    try:
        return document_for(settings, viewer_here(), kind, fields)
    except HistoryError as error:
        if away is None:
            raise
        raise AdvisorError(f"{error}; and {away}") from None


def has_history(settings: "Settings") -> bool:
    """True if this user can read the history's file on this machine."""
    return os.access(settings.state_dir / "history.db", os.R_OK)


def document_for(
    settings: "Settings", viewer: "Viewer", kind: str, fields: Mapping[str, Any]
) -> dict[str, Any]:
    """The answer as `viewer` may have it. Raises DlqueueError."""
    answering: Answering = import_module(KINDS[kind]).document
    return answering(settings, viewer, fields)


def viewer_here() -> "Viewer":
    """This process's user, who sees whatever it can read."""
    from slurm_ext.history.views.visible import Viewer

    return Viewer(user=user_here(), uid=os.getuid(), sees_all=True)


def user_here() -> str:
    """The name of this process's user; its number where it has none."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
