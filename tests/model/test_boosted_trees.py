"""Trees from arrays: thresholds, missing numbers, and many rows as few."""

import numpy as np
import pytest

from slurm_ext.model.boosted_trees import FEW, Forest
from slurm_ext.model.forest_arrays import forest_from_arrays, forests_to_arrays

# Tree 0: x0 <= 1 (NaN left) ? 1 : (x1 <= 2 (NaN right) ? 10 : 20). Tree 1: a single leaf of 100.
FOREST = Forest(
    roots=np.array([0, 5]),
    depth=2,
    feature=np.array([0, -1, 1, -1, -1, -1]),
    threshold=np.array([1.0, 0.0, 2.0, 0.0, 0.0, 0.0]),
    nan_left=np.array([1, 0, 0, 0, 0, 0]),
    left=np.array([1, 1, 3, 3, 4, 5]),
    right=np.array([2, 1, 4, 3, 4, 5]),
    value=np.array([0.0, 1.0, 0.0, 10.0, 20.0, 100.0]),
)
ROWS = np.array([[1.0, 9.0], [1.1, 2.0], [1.1, 2.1], [np.nan, 0.0], [5.0, np.nan]])
ANSWERS = [101.0, 110.0, 120.0, 101.0, 120.0]


def test_each_row_ends_in_one_leaf_a_tree() -> None:
    """A value at its threshold goes left; a missing one where training sent it."""
    assert FOREST(ROWS).tolist() == ANSWERS
    assert [float(FOREST(row[None])[0]) for row in ROWS] == ANSWERS
    assert len(FOREST(ROWS[:0])) == 0


@pytest.mark.parametrize("count", [FEW - 1, FEW, FEW + 1, 7])
def test_many_rows_are_answered_as_few(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces of any size, none twice and none left out."""
    monkeypatch.setattr("slurm_ext.model.boosted_trees.CELLS", 6)  # three rows at once
    rows = np.tile(ROWS, (2, 1))[:count]
    assert FOREST(rows).tolist() == (ANSWERS * 2)[:count]


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("left", 0, 6),
        ("right", 0, -1),
        ("roots", 0, 6),
        ("feature", 0, 2),
        ("feature", 0, -2),
        ("value", 1, np.inf),
    ],
)
def test_torn_arrays_are_no_forest(name: str, place: int, value: float) -> None:
    """Every index lies inside, one beyond is refused; so is a number that is not finite."""
    arrays = {key: array.copy() for key, array in forests_to_arrays({"t": FOREST}).items()}
    assert forest_from_arrays(arrays, "t", depth=2, width=2)(ROWS).tolist() == ANSWERS
    arrays[f"t_{name}"] = arrays[f"t_{name}"].astype(float)
    arrays[f"t_{name}"][place] = value
    with pytest.raises(ValueError, match="trees 't'"):
        forest_from_arrays(arrays, "t", depth=2, width=2)


def test_a_forest_has_depth_roots_and_equal_columns() -> None:
    """A depth of as many as there are nodes is impossible, as is a forest without roots."""
    arrays = forests_to_arrays({"t": FOREST})
    forest_from_arrays(arrays, "t", depth=5, width=2)
    forest_from_arrays(arrays, "t", depth=0, width=2)
    for depth, changed in (
        (6, {}),
        (-1, {}),
        (2, {"t_roots": np.zeros(0)}),
        (2, {"t_threshold": np.zeros(5)}),
    ):
        with pytest.raises(ValueError, match="do not fit"):
            forest_from_arrays({**arrays, **changed}, "t", depth=depth, width=2)
    with pytest.raises(KeyError):
        forest_from_arrays({}, "t", depth=2, width=2)
