"""Shared by tests of history_writer: examples and helpers."""

from pathlib import Path
from typing import Any

from slurm_ext.core.settings.document import Settings

ANYTHING: Any = None


def settings(folder: Path, **values: Any) -> Settings:
    """Settings of a state folder; dots are written as __."""
    named = {name.replace("__", "."): value for name, value in values.items()}
    return Settings(values={"paths.state_dir": str(folder), **named})
