"""Values as cells of a CSV file: users' texts obey neither a spreadsheet nor a terminal."""

from typing import Any

_FORMULA = tuple("=+-@\t\r")  # what a spreadsheet takes for a formula's first character


def csv_cell(value: Any) -> Any:
    """The value; a text without control characters, quoted where it begins like a formula."""
    if not isinstance(value, str):
        return value
    quoted = f"'{value}" if value.startswith(_FORMULA) else value
    if quoted.isprintable():
        return quoted
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in quoted)
