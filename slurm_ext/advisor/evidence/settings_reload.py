"""Settings read again while everything runs (SIGHUP): what can change does, the rest stays."""

from dataclasses import replace
from pathlib import Path

from slurm_ext.core.settings.document import Settings, load

FIXED = (
    *("paths.state_dir", "paths.socket", "advisor.socket_mode"),
    *("advisor.listen", "node.munge_socket"),
    *("metrics.listen", "log.format"),
)
"""What a running advisor was built around: a new value waits for a restart."""


def reloaded(config: Path | None, now: Settings) -> tuple[Settings, list[str]]:
    """The settings from now on, and the keys that need a restart. Raises SettingsError."""
    new = load(config)
    waiting = [key for key in FIXED if new[key] != now[key]]
    return replace(new, values={**new.values, **{key: now[key] for key in waiting}}), waiting
