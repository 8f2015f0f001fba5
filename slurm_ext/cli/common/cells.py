"""Cells of tables in a terminal. Job names are users' text: shown, never obeyed."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

ABSENT = "-"


def cell(value: Any) -> "Text":
    """A value for a table of rich's: no markup in it."""
    from rich.text import Text

    return Text(shown(value))


def shown(value: Any) -> str:
    """A value as text; control characters are escapes instead of commands."""
    if value is None:
        return ABSENT
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
