"""Models on the disk: every version ever shipped is read, and damage is said, whatever the kind."""

import json
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest

from slurm_ext.core.errors import ModelError
from slurm_ext.core.gpu_sharing import SoloProfile
from slurm_ext.model.artifact_store import ArtifactSpec, current, naming_file, read, serialize
from slurm_ext.model.demand import artifact as demand_artifact
from slurm_ext.model.demand.model import FEATURES
from slurm_ext.model.duration import artifact as duration_artifact
from slurm_ext.model.scaling import artifact as scaling_artifact
from slurm_ext.model.scaling.model import ScalingMeasurement, TrainingConfig, fit
from slurm_ext.model.slowdown import artifact as slowdown_artifact
from slurm_ext.model.throughput import artifact as throughput_artifact
from slurm_ext.model.throughput.features import PriorInput

GOLDEN = Path(__file__).parent.parent / "golden" / "models"
LOADS: dict[str, Callable[[Path], Any]] = {
    "prior": throughput_artifact.load,
    "demand": demand_artifact.load,
    "duration": duration_artifact.load,
    "scaling": scaling_artifact.load,
    "slowdown": slowdown_artifact.load,
}
FILES = sorted(GOLDEN.glob("*/*"))
PLAIN = ArtifactSpec(about="a.json", arrays="a.npz", terms={"words": ["x"]}, signed=False)


def test_every_kind_has_a_golden_folder() -> None:
    """Its first version, as a release wrote it."""
    assert {folder.name for folder in GOLDEN.iterdir()} >= {f"{kind}-v1" for kind in LOADS}


@pytest.mark.parametrize("folder", sorted(GOLDEN.iterdir()), ids=lambda folder: folder.name)
def test_what_a_release_wrote_is_read(folder: Path) -> None:
    """Nobody has to train again because dlqueue is newer."""
    assert LOADS[folder.name.split("-")[0]](folder)


def test_a_shipped_prior_answers_as_then() -> None:
    """Means and widths of log rates."""
    told = throughput_artifact.load(GOLDEN / "prior-v1").prior(PriorInput(user="ann", keys={}))
    assert told.accel.log_mean == pytest.approx(0.04739343919870137)
    assert told.cpu.log_sd == pytest.approx(0.00032331221123680325)


def test_a_shipped_demand_model_answers_as_then() -> None:
    """Nodes more than now, one hour ahead, and the peak."""
    model = demand_artifact.load(GOLDEN / "demand-v1")
    rows = np.ones((1, len(FEATURES)))
    assert model.change(rows, 6) == pytest.approx([5.75])
    assert model.peak(rows, 0.9) == pytest.approx([-8.1])


def test_a_shipped_duration_model_answers_as_then() -> None:
    """Of a job of which nothing is known: logs of seconds, and bounds."""
    model = duration_artifact.load(GOLDEN / "duration-v1")
    width = len(model.durations.plan.features)
    told = model.durations.predict(np.full((1, width), np.nan))
    assert [told.log_low[0], told.log_mean[0], told.log_high[0]] == [4.0, 5.0, 6.0]
    assert model.bounds.low == [0.1, 0.2, 0.3]


def test_a_shipped_family_answers_as_then() -> None:
    """Samples a second of a known training on four GPUs."""
    family = scaling_artifact.load(GOLDEN / "scaling-v1")
    one = ScalingMeasurement(
        config=TrainingConfig(gpus=1, nodes=1, local_batch=8.0), samples_per_s=100.0
    )
    asked = [TrainingConfig(gpus=4, nodes=1, local_batch=8.0)]
    told = fit([one], family.prior(model="alpha", cluster="fast")).rates(asked)
    assert told[0] == pytest.approx([358.57], rel=0.01)


def test_a_shipped_model_of_sharing_answers_as_then() -> None:
    """Of a pair that was met, and of two by their counters."""
    known = slowdown_artifact.load(GOLDEN / "slowdown-v1").slowdowns
    assert known.speed(SoloProfile(key="a"), [SoloProfile(key="b")], "cpu").mean == pytest.approx(
        0.508, abs=0.01
    )
    busy = {"util": 20.0, "kernel_us": 20.0, "misses": 2e3, "instructions": 1e6}
    told = known.speed(
        SoloProfile(key="x", features=busy), [SoloProfile(key="y", features=busy)], "v100"
    )
    assert told.evidence.name == "COUNTERS"


def _cut(data: bytes) -> bytes:
    return data[:-20]


def _flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


DAMAGES: list[Callable[[bytes], bytes]] = [
    _cut,
    lambda _: b"",
    lambda _: b"[1, 2]",
    lambda _: b"{}",
    lambda _: b"[" * 100_000,
    lambda _: b"\xff\xfe",
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_names_the_file(
    tmp_path: Path, path: Path, damage: Callable[[bytes], bytes]
) -> None:
    """Torn, empty, foreign: one error whatever the kind, and it says what to do."""
    folder = copytree(path.parent, tmp_path / "model")
    (folder / path.name).write_bytes(damage(path.read_bytes()))
    with pytest.raises(ModelError, match=rf"{path.name}: .*train again"):
        LOADS[path.parent.name.split("-")[0]](folder)


def test_one_changed_digit_is_seen(tmp_path: Path) -> None:
    """The JSON beside the arrays has a checksum too, of every kind, in what is written now."""
    files = serialize(PLAIN, {"shift": 3.25}, {"a": np.arange(3)})
    write(tmp_path, {**files, "a.json": files["a.json"].replace(b"3.25", b"3.35")})
    with pytest.raises(ModelError, match=r"a\.json: does not match its checksum; train again"):
        read(PLAIN, tmp_path)


def test_a_flipped_bit_in_the_arrays_is_seen(tmp_path: Path) -> None:
    """By the checksum that the JSON holds."""
    files = serialize(PLAIN, {}, {"a": np.arange(3)})
    write(tmp_path, {**files, "a.npz": _flip(files["a.npz"])})
    with pytest.raises(ModelError, match=r"a\.npz: does not match its checksum; train again"):
        read(PLAIN, tmp_path)


def test_terms_and_version_are_this_dlqueues(tmp_path: Path) -> None:
    """A model over other terms would answer nonsense: it is told which."""
    for body, said in (({"words": ["y"]}, "with other words"), ({"format": 2}, "format 2")):
        write(tmp_path, serialize(PLAIN, body, {"a": np.arange(3)}))
        with pytest.raises(ModelError, match=f"another version of dlqueue, {said}"):
            read(PLAIN, tmp_path)


def test_without_a_checksum_only_where_the_first_releases_wrote_none(tmp_path: Path) -> None:
    """A kind that always had one is not believed without."""
    body = json.loads(serialize(PLAIN, {})["a.json"])
    del body["sha256"]
    write(tmp_path, {**serialize(PLAIN, {}), "a.json": json.dumps(body).encode()})
    assert read(PLAIN, tmp_path)[1] == {}
    with pytest.raises(ModelError, match="checksum"):
        read(ArtifactSpec(about="a.json", arrays="a.npz", terms=PLAIN.terms), tmp_path)


def test_what_does_not_fit_is_said_in_words(tmp_path: Path) -> None:
    """Whatever a kind's own reader stumbled over, a person reads the file and the reason."""
    told = []
    for wrong in (KeyError("met"), ValueError("odd"), ModelError("inside")):
        with pytest.raises(ModelError) as caught, naming_file(tmp_path / "m.json"):
            raise wrong
        told.append(str(caught.value).removeprefix(f"{tmp_path}/"))
    assert told == [
        "m.json: holds no 'met'; train again",
        "m.json: odd; train again",
        "m.json: inside",
    ]


def test_none_serves_before_one_was_promoted(tmp_path: Path) -> None:
    """No folder, no link, a link to nowhere; one in a circle, or not to be entered, is told."""
    assert current(tmp_path / "none") is None
    (tmp_path / "current").symlink_to("gone")
    assert current(tmp_path) is None
    (tmp_path / "gone").symlink_to("current")
    with pytest.raises(ModelError, match="current: cannot be read"):
        current(tmp_path)


def write(folder: Path, files: dict[str, bytes]) -> None:
    """Put a model's files in place."""
    for name, data in files.items():
        (folder / name).write_bytes(data)
