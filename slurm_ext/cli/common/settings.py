"""Settings of a command that reads a history: the user's own one, where the machine has no site."""

import os
from pathlib import Path

from slurm_ext.core.settings.document import DEFAULT_PATH, Settings, drop_ins, load
from slurm_ext.core.settings.own import own_settings_path


def load_for_history(path: Path | None) -> Settings:
    """Load settings; enter waiting runs of `dlqueue run`. Raises InputError, HistoryError.

    Commands that serve, act or install never read a user's own file: they are the site's.
    """
    own = own_settings_path()
    named = path is not None or "DLQUEUE_CONFIG" in os.environ
    siteless = (
        not named and not DEFAULT_PATH.exists() and not drop_ins(DEFAULT_PATH.with_suffix(".d"))
    )
    settings = load(own if siteless and os.access(own, os.R_OK) else path)
    if settings.source == str(own):
        from slurm_ext.advisor.own_runs.own_history import take_in

        take_in(settings.state_dir)
    return settings
