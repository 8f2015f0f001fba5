"""Settings of a user who has no site: the file that `dlqueue run` leaves beside its history."""

import os
from pathlib import Path


def own_settings_path() -> Path:
    """Path of this user's own dlqueue.toml: $XDG_STATE_HOME/dlqueue, else ~/.local/state."""
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    base = state if state.is_absolute() else Path("~/.local/state").expanduser()
    return base / "dlqueue" / "dlqueue.toml"
