"""A recorded demand series: gaps, torn lines, what is forgotten."""

from pathlib import Path

import pytest

from slurm_ext.model.demand.model import DAY
from slurm_ext.model.demand.series import (
    LONGEST_GAP,
    NOBODY,
    read,
    series_path,
    weights_of,
)


def test_gaps_are_as_the_slot_before_and_odd_lines_are_passed_over(tmp_path: Path) -> None:
    """Lines in any order, one torn, one doubled: the later of a slot counts."""
    path = tmp_path / "demand-all.csv"
    path.write_text("600,3,9\n2400,5,9\n\n-1,2,3\n1200,4\nx,1,1\n600,2,9,7\n3000,7,")
    series = read(path)
    shown = (series.first, series.need.tolist(), series.total.tolist())
    assert shown == (1, [2, 2, 2, 5], [9, 9, 9, 9])
    assert series.users == [7, 7, 7, NOBODY]


def test_what_is_before_a_long_gap_is_forgotten(tmp_path: Path) -> None:
    """A day without a look is another time."""
    path = tmp_path / "demand-all.csv"
    path.write_text(f"0,3,9\n{600 * (LONGEST_GAP + 1)},5,9\n")
    assert read(path).first == LONGEST_GAP + 1
    path.write_text(f"0,3,9\n{600 * LONGEST_GAP},5,9\n")
    assert read(path).first == 0


def test_an_empty_file_is_no_series(tmp_path: Path) -> None:
    """And one that is absent is an error of the system's."""
    path = series_path(tmp_path, "gpu/a")
    assert path.name == "demand-gpu_a.csv"
    with pytest.raises(FileNotFoundError):
        read(path)
    path.touch()
    assert len(read(path).need) == 0


def test_no_user_has_more_than_a_third_of_what_is_learned() -> None:
    """However long he wanted the most; slots that nobody claims keep their part of the whole."""
    days = {1: 20, 2: 3, 3: 2, NOBODY: 5}
    users = [user for user, count in days.items() for _ in range(count * DAY)]
    weights = weights_of(users)
    share = {
        user: sum(w for one, w in zip(users, weights, strict=True) if one == user) / len(users)
        for user in days
    }
    claimed = 1 - share[NOBODY]
    assert [share[user] / claimed for user in (1, 2, 3)] == pytest.approx([1 / 3] * 3)
    assert share[NOBODY] == pytest.approx(5 / 30)
    assert weights.mean() == pytest.approx(1)


def test_a_user_of_some_hours_is_no_user_of_the_pool() -> None:
    """A few slots of a third user must not become a third of everything."""
    users = [1] * 20 * DAY + [2] * 3 * DAY + [3] * (DAY - 1)
    assert weights_of(users).tolist() == [1.0] * len(users)
    assert weights_of([]).tolist() == []
