"""Settings of a command that reads a history: the user's own one, where the machine has no site."""

import os
from pathlib import Path

from slurm_ext.core.settings.document import (
    DEFAULT_PATH,
    Settings,
    drop_ins,
    load,
    named_by_environment,
)
from slurm_ext.core.settings.own import own_settings_path


def load_for_history(path: Path | None) -> Settings:
    """Load settings; enter waiting runs of `dlqueue run`. Raises InputError, HistoryError.

    Commands that serve, act or install never read a user's own file: they are the site's.
    """
    own = own_settings_path()
    if path is None and siteless():
        if not (os.access(own, os.R_OK) and own.stat().st_size):
            return _before_the_first_run(own)
        path = own
    settings = load(path)
    if settings.source == str(own):
        from slurm_ext.advisor.own_runs.own_history import take_in

        take_in(settings.state_dir)
    return settings


def siteless() -> bool:
    """True if neither the environment nor /etc names a site's settings."""
    if named_by_environment() or DEFAULT_PATH.exists():
        return False
    return not drop_ins(DEFAULT_PATH.with_suffix(".d"))


def _before_the_first_run(own: Path) -> Settings:
    """A site's defaults where its advisor keeps a history here, else those of the own folder."""
    site = load(None)
    if site.state_dir.exists():
        return site
    return Settings(site.source, {"paths.state_dir": str(own.parent)})
