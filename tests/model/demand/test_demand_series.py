"""A recorded demand series: gaps, torn lines, what is forgotten."""

from pathlib import Path

import pytest

from slurm_ext.model.demand.series import LONGEST_GAP, read, series_path


def test_gaps_are_as_the_slot_before_and_odd_lines_are_passed_over(tmp_path: Path) -> None:
    """Lines in any order, one torn, one doubled: the later of a slot counts."""
    path = tmp_path / "demand-all.csv"
    path.write_text("600,3,9\n2400,5,9\n\n-1,2,3\n1200,4\nx,1,1\n600,2,9\n3000,7,")
    first, needed, total = read(path)
    assert (first, needed.tolist(), total.tolist()) == (1, [2, 2, 2, 5], [9, 9, 9, 9])


def test_what_is_before_a_long_gap_is_forgotten(tmp_path: Path) -> None:
    """A day without a look is another time."""
    path = tmp_path / "demand-all.csv"
    path.write_text(f"0,3,9\n{600 * (LONGEST_GAP + 1)},5,9\n")
    assert read(path)[0] == LONGEST_GAP + 1
    path.write_text(f"0,3,9\n{600 * LONGEST_GAP},5,9\n")
    assert read(path)[0] == 0


def test_an_empty_file_is_no_series(tmp_path: Path) -> None:
    """And one that is absent is an error of the system's."""
    path = series_path(tmp_path, "gpu/a")
    assert path.name == "demand-gpu_a.csv"
    with pytest.raises(FileNotFoundError):
        read(path)
    path.touch()
    assert len(read(path)[1]) == 0
