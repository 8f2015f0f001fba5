"""Cells of tables in a terminal. Job names are users' text: shown, never obeyed."""

from typing import Any

from rich.text import Text

ABSENT = "-"


def cell(value: Any) -> Text:
    """A value as text: no markup, and control characters as escapes instead of commands."""
    if value is None:
        return Text(ABSENT)
    shown = f"{value:.4g}" if isinstance(value, float) else str(value)
    return Text(
        "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)
    )
