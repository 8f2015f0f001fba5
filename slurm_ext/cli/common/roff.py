"""Sections of a manual page in roff."""

from collections.abc import Iterable


def section(title: str, font: str, rows: Iterable[tuple[str, str]]) -> str:
    """A section with a line for each row: its first part in `font` (B bold, I italic)."""
    lines = (f".TP\n\\f{font}{escaped(head)}\\fR\n{escaped(text)}\n" for head, text in rows)
    return f".SH {title}\n{''.join(lines)}"


def escaped(text: str) -> str:
    """Text that roff prints as it stands."""
    return text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("~", "\\(ti")
