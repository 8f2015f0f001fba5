"""Settings of a command that reads a history: the user's own one is brought up to date first."""

from pathlib import Path

from slurm_ext.core.settings.document import Settings, load
from slurm_ext.core.settings.own import own_settings_path


def load_for_history(path: Path | None) -> Settings:
    """Load settings; enter waiting runs of `dlqueue run`. Raises InputError, HistoryError."""
    settings = load(path)
    if settings.source == str(own_settings_path()):
        from slurm_ext.advisor.own_runs.own_history import take_in

        take_in(settings.state_dir)
    return settings
