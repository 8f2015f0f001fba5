"""Settings of a user who has no site: the file that `dlqueue run` leaves beside its history.

`dlqueue run` needs the folder before the user's program starts: no module is imported for it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

_NO_HOME = "/nonexistent"  # as passwd has it for those without one
NAME = "dlqueue.toml"


def own_folder() -> str:
    """This user's own folder: $XDG_STATE_HOME/dlqueue, else ~/.local/state/dlqueue."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):
        home = os.path.expanduser("~")
        state = f"{home if home != '~' else _NO_HOME}/.local/state"
    return os.path.join(state, "dlqueue")


def own_settings_path() -> Path:
    """Path of this user's own dlqueue.toml."""
    from pathlib import Path

    return Path(own_folder(), NAME)
