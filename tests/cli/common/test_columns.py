"""Columns fit a terminal, and its user has the say on colours."""

import pytest

from slurm_ext.cli.common.columns import Cell, lines, width

ROWS = [
    [Cell("JOB", "bold"), Cell("NAME"), Cell("CPUS")],
    [Cell("1"), Cell("東京 run", "green"), Cell("16")],
    [Cell("1234"), Cell("a-long-name-of-a-job"), Cell("-")],
]


def shown(monkeypatch: pytest.MonkeyPatch, columns: int, **env: str) -> list[str]:
    """ROWS in a terminal of so many columns, the name cut first."""
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"COLUMNS": str(columns), **env}.items():
        monkeypatch.setenv(name, value)
    return list(lines(ROWS, left=(0, 1), cut=1))


def test_columns_stand_below_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wide characters take two places; figures end together; nothing trails."""
    assert shown(monkeypatch, 80) == [
        "JOB  NAME                 CPUS",
        "1    東京 run               16",
        "1234 a-long-name-of-a-job    -",
    ]


@pytest.mark.parametrize("columns", [12, 16, 20, 29])
def test_a_narrow_terminal_cuts_one_column(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """To what is left for it, with a mark; the others stay whole."""
    found = shown(monkeypatch, columns)
    assert max(map(width, found)) == columns
    assert found[2].startswith("1234 a")
    assert found[2].endswith("…    -")


def test_a_terminal_without_room_cuts_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """It wraps lines itself."""
    assert shown(monkeypatch, 4)[2] == "1234 …    -"


@pytest.mark.parametrize(
    ("env", "coloured"),
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)],
)
def test_colours_are_the_users_choice(
    monkeypatch: pytest.MonkeyPatch, env: dict[str, str], coloured: bool
) -> None:
    """A pipe has none unless they are asked for; they take no place."""
    found = shown(monkeypatch, 80, **env)
    assert ("\x1b[32m東京 run\x1b[0m" in found[1]) == coloured
    assert all("\x1b" not in line for line in found) == (not coloured)
