"""The prior's folder: it loads as it was written, or says what is wrong with it."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.core.errors import ModelError
from slurm_ext.core.records import Level
from slurm_ext.model.artifact_store import current
from slurm_ext.model.throughput.artifact import PriorArtifact, forward, load, serialize, shapes
from slurm_ext.model.throughput.features import SLOTS, WIDTH, PriorInput, features

ABOUT = {"window_s": [1.0, 2.0], "scores": {"ours": {"mae": 0.1}}}


def weights(seed: int = 0) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    """Random arrays of the right shapes."""
    rng = np.random.default_rng(seed)
    return {name: abs(rng.normal(size=shape)) / 9 for name, shape in shapes(5).items()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An artifact on disk."""
    path = tmp_path / "prior-1"
    path.mkdir()
    for name, data in serialize(ABOUT, weights()).items():
        (path / name).write_bytes(data)
    return path


KNOWN = PriorInput(user="ada", partition="gpu", gpus=2, keys={Level.KIND: 7, Level.SCRIPT: None})


def test_what_was_packed_is_loaded(folder: Path) -> None:
    """Arrays, window and scores come back; the answer is that of the forward pass."""
    loaded = load(folder)
    assert loaded.about["scores"] == ABOUT["scores"]
    assert all(np.array_equal(loaded.weights[name], array) for name, array in weights().items())
    row = np.zeros((1, WIDTH))
    for slot, value in features(KNOWN).items():
        row[0, slot] = value
    means, sds = forward(weights(), row)
    prior = loaded.prior(KNOWN)
    assert [prior.accel.log_mean, prior.wall.log_mean, prior.cpu.log_mean] == list(means[0])
    assert [prior.accel.log_sd, prior.wall.log_sd, prior.cpu.log_sd] == list(sds[0])


def test_the_same_numbers_are_the_same_bytes() -> None:
    """An artifact can be named by its content."""
    assert serialize(ABOUT, weights()) == serialize(ABOUT, weights())
    assert serialize(ABOUT, weights()) != serialize(ABOUT, weights(1))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _list(path: Path) -> None:
    path.write_bytes(b"[1, 2]")


def _deep(path: Path) -> None:
    path.write_bytes(b"[" * 100_000)


def _pickled(path: Path) -> None:
    path.write_bytes(pickle.dumps({"w1": 1}))


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(17 << 20)


@pytest.mark.parametrize("name", ["model.json", "weights.npz"])
@pytest.mark.parametrize(
    "damage", [_cut, _flip, _empty, _list, _deep, _pickled, _huge, Path.unlink]
)
def test_damage_is_a_model_error_that_names_the_file(
    folder: Path, name: str, damage: Callable[[Path], None]
) -> None:
    """No torn, flipped, empty, foreign, giant or absent file is answered from."""
    damage(folder / name)
    with pytest.raises(ModelError) as caught:
        load(folder)
    assert str(folder / name) in str(caught.value)


def test_arrays_of_other_shapes_are_refused(folder: Path) -> None:
    """Even with right checksums: what does not fit the network is not loaded."""
    wrong = weights() | {"b2": np.zeros(5)}
    write(folder, serialize(ABOUT, wrong))
    with pytest.raises(ModelError, match="other arrays"):
        load(folder)


def test_numbers_that_are_not_finite_are_refused(folder: Path) -> None:
    """One NaN would answer NaN for every job."""
    write(folder, serialize(ABOUT, weights() | {"b1": np.full(5, np.nan)}))
    with pytest.raises(ModelError, match="not finite"):
        load(folder)


def test_objects_in_the_arrays_are_never_unpickled(folder: Path) -> None:
    """A pickle in the archive would run code as the advisor."""
    hostile = weights() | {"b1": np.array([ValueError("ran")] * 5, dtype=object)}
    write(folder, serialize(ABOUT, hostile))
    with pytest.raises(ModelError, match="not an archive"):
        load(folder)


def test_another_format_is_said(folder: Path) -> None:
    """A model of a newer dlqueue is not guessed at."""
    write(folder, serialize({**ABOUT, "format": 99}, weights()))
    with pytest.raises(ModelError, match="another version"):
        load(folder)


def write(folder: Path, files: dict[str, bytes]) -> None:
    """Put an artifact's files in place."""
    for name, data in files.items():
        (folder / name).write_bytes(data)


def test_without_a_promoted_model_there_is_none(tmp_path: Path, folder: Path) -> None:
    """No link and a link that leads nowhere are both "none"; a good one is followed."""
    assert current(tmp_path) is None
    (tmp_path / "current").symlink_to("gone")
    assert current(tmp_path) is None
    (tmp_path / "current").unlink()
    (tmp_path / "current").symlink_to(folder.name)
    assert current(tmp_path) == folder.resolve()
    assert isinstance(load(tmp_path / "current"), PriorArtifact)
    assert load(tmp_path / "current").name == folder.name


def test_model_json_is_for_people_too(folder: Path) -> None:
    """Window, scores, features and targets can be read without us."""
    body = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    assert {"window_s", "scores", "features", "targets", "weights_sha256", "format"} <= set(body)


@given(st.text(max_size=30), st.text(max_size=30), st.integers(-5, 10**6), st.integers())
def test_any_names_have_features_of_one_width(user: str, part: str, gpus: int, key: int) -> None:
    """Whatever a cluster's users and partitions are called, the network's input has room."""
    values = features(PriorInput(user=user, partition=part, gpus=gpus, keys={Level.KIND: key}))
    assert all(0 <= slot < WIDTH for slot in values)
    assert all(abs(value) < 20 for value in values.values())


def test_different_names_are_told_apart() -> None:
    """A user is not a partition of the same name."""
    assert features(PriorInput(user="gpu", keys={})) != features(
        PriorInput(partition="gpu", keys={})
    )
    assert features(PriorInput(keys={})) == {SLOTS: 0.0}
