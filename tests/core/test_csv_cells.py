"""Texts of users in CSV files: neither a formula of a spreadsheet nor a terminal's command."""

import pytest

from slurm_ext.core.csv_cells import csv_cell


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("+1", "'+1"),
        ("-1+2", "'-1+2"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\tx", "'\\tx"),
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("a\r\nb\0", "a\\r\\nb\\x00"),
        ("é ü", "é ü"),
        ("train.py", "train.py"),
        (-1.5, -1.5),
        (None, None),
    ],
)
def test_a_cell_obeys_nothing(value: object, cell: object) -> None:
    """Formulas are quoted, control characters spelt out; numbers stay numbers."""
    assert csv_cell(value) == cell
