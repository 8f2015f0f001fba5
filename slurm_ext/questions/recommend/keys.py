"""Keys by which `recommend` finds the runs of a script, or of a job name."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_ext.core.records import Level
    from slurm_ext.history.views.visible import Viewer


def own_keys(viewer: "Viewer", fields: Mapping[str, Any]) -> Mapping["Level", int]:
    """The keys to look for, nearest first: those of a user's own runs.

    `fields`: `submission`, or `name` with a `user` if it is not the viewer. Raises RefusedError.
    """
    from slurm_ext.core.errors import RefusedError
    from slurm_ext.core.job_keys import keys_of, user_name_key
    from slurm_ext.core.records import Level

    if fields.get("submission") is None:
        user = fields.get("user") or viewer.user
        if user != viewer.user and not viewer.sees_all:
            raise RefusedError(f"--user {user}: operators alone see others' jobs")
        return {Level.USER_NAME: user_name_key(user, fields["name"])}
    keys = keys_of(fields["submission"])
    own = (Level.SCRIPT_ARGS, Level.SCRIPT, Level.USER_NAME)
    return {level: keys[level] for level in own if level in keys}
