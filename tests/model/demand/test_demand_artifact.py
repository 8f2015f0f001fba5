"""A demand model on the disk: what is read back is what was written, or an error that says why."""

import json
from pathlib import Path

import numpy as np
import pytest

from slurm_ext.core.errors import ModelError
from slurm_ext.model.boosted_trees import Forest
from slurm_ext.model.demand.artifact import ABOUT, ARRAYS, load, serialize
from slurm_ext.model.demand.model import (
    FEATURES,
    HORIZONS,
    LEVELS,
    DemandModel,
    RidgeLine,
    features,
)

WIDTH = len(FEATURES)
ROWS = features(np.random.default_rng(0).integers(0, 90, 400).astype(np.float64), 7)


def forest(value: float) -> Forest:
    """One split on demand now."""
    whole = [np.array(one, dtype=np.int64) for one in ([0], [0, -1, -1], [0, 0, 0], [1, 1, 2])]
    right = np.array([2, 1, 2], dtype=np.int64)
    thresholds, values = np.array([1.0, 0.0, 0.0]), np.array([0.0, -value, value])
    return Forest(whole[0], 1, whole[1], thresholds, whole[2], whole[3], right, values)


def model() -> DemandModel:
    """Of every part one."""
    line = RidgeLine(np.zeros(WIDTH), np.ones(WIDTH), np.linspace(0, 1, WIDTH), 0.5)
    return DemandModel(
        lines=dict.fromkeys(HORIZONS, line),
        trees={horizon: forest(horizon) for horizon in HORIZONS},
        peaks={level: forest(10 * level) for level in LEVELS},
        shifts={level: level for level in LEVELS},
    )


def written(folder: Path) -> Path:
    """The model in a folder."""
    for name, data in serialize(model()).items():
        (folder / name).write_bytes(data)
    return folder


def test_what_is_read_back_answers_the_same(tmp_path: Path) -> None:
    """To the last bit; the same model is the same bytes."""
    again = load(written(tmp_path))
    for horizon in HORIZONS:
        assert np.array_equal(model().change(ROWS, horizon), again.change(ROWS, horizon))
    for level in LEVELS:
        assert np.array_equal(model().peak(ROWS, level), again.peak(ROWS, level))
    assert serialize(again) == serialize(model())


@pytest.mark.parametrize("name", [ABOUT, ARRAYS])
def test_a_missing_or_torn_file_is_named(tmp_path: Path, name: str) -> None:
    """No traceback of numpy's."""
    path = written(tmp_path) / name
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ModelError, match=r"demand\.(json|npz)"):
        load(tmp_path)
    path.unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("format", 99, "another version"),
        ("features", [], "other features"),
        ("shifts", {"0.7": 0, "0.8": float("nan"), "0.9": 0}, "not finite"),
        ("starts", {}, "holds no '6'"),
        ("depths", {"trees6": -1}, "do not fit"),
        ("arrays_sha256", "0", "checksum"),
    ],
)
def test_a_body_that_does_not_fit_is_refused(
    tmp_path: Path, key: str, value: object, said: str
) -> None:
    """Whatever was changed."""
    path = written(tmp_path) / ABOUT
    body = json.loads(path.read_text())
    del body["sha256"]  # as of a release that wrote none: what is inside is looked at all the same
    path.write_text(json.dumps({**body, key: value}))
    with pytest.raises(ModelError, match=rf"{said}.*train again"):
        load(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"centre": np.zeros(WIDTH - 1), "scale": np.ones(WIDTH - 1), "weights": np.ones(WIDTH - 1)},
        {"centre": np.full(WIDTH, np.inf)},
        {"weights": np.full(WIDTH, np.nan)},
        {"scale": np.zeros(WIDTH)},
        {"scale": np.array([1.0] * (WIDTH - 1) + [-1.0])},
    ],
)
def test_a_line_that_does_not_fit_is_named(tmp_path: Path, change: dict[str, np.ndarray]) -> None:
    """Another width, a number that is none, or a scale that is not positive."""
    parts = {"centre": np.zeros(WIDTH), "scale": np.ones(WIDTH), "weights": np.ones(WIDTH)}
    good = model()
    bad = DemandModel(
        lines={**good.lines, HORIZONS[-1]: RidgeLine(**{**parts, **change}, start=0.5)},
        trees=good.trees,
        peaks=good.peaks,
        shifts=good.shifts,
    )
    for name, data in serialize(bad).items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(ModelError, match=f"the line of {HORIZONS[-1]} slots does not fit"):
        load(tmp_path)
