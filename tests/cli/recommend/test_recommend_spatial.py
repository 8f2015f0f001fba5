"""`dlqueue recommend --spatial` as people start it."""

import json
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli import main
from slurm_ext.spatial.planning.profile import HaloLayer, NetworkProfile

NET = NetworkProfile(
    sizes=(64, 64, 64),
    strides=(4, 4, 4),
    parameter_bytes=1e6,
    state_bytes=3e6,
    activation_bytes=2.0**30,
    input_bytes=2.0**20,
    fixed_s=1e-3,
    voxel_s=1e-6,
    norm_channels=(8,),
    layers=(HaloLayer((1, 1, 1), 32, (1, 1, 1), (1, 1, 1)),),
)


@pytest.fixture
def network(tmp_path: Path) -> str:
    """A measured profile."""
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(NET.document()))
    return str(path)


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """The document."""
    assert main(["recommend", *words, "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_ranks_alone_are_enough(network: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A mesh is chosen, with the parts of its step, and what twice the volume wants."""
    document = asked(capsys, "--spatial", network, "--ranks", "4", "--rank-mem-mib", "600")
    best = document["recommendation"]
    assert best["data"] * best["space"][0] * best["space"][1] * best["space"][2] == 4
    assert best["memory_bytes"] <= 0.92 * 600 * 2**20
    assert document["larger"]["data"] == 1
    assert document["others"]


def test_people_read_how_to_submit_it(network: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With the mesh as the template's training takes it."""
    assert main(["recommend", "--spatial", network, "--ranks", "2", "--batch", "1"]) == 0
    text = capsys.readouterr().out
    assert "1 data x 2x1x1 space" in text
    assert "next:     sbatch -n 2 spatial.sbatch TRAINING --mesh 1x2x1x1" in text


def test_a_volume_that_no_mesh_divides_is_said(
    network: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Instead of a recommendation that would be refused in the job."""
    words = ("--spatial", network, "--ranks", "7", "--batch", "1", "--volume", "64x64x64")
    assert asked(capsys, *words)["recommendation"] is None


@pytest.mark.parametrize(
    ("text", "words", "status"),
    [
        ("{", ("--ranks", "2"), 1),
        ("[]", ("--ranks", "2"), 1),
        (json.dumps({"v": 1}), ("--ranks", "2"), 1),
        (json.dumps(NET.document()), (), 2),
        (json.dumps(NET.document()), ("--ranks", "0"), 2),
        (json.dumps(NET.document()), ("--ranks", "2", "--volume", "64x-1"), 2),
        (json.dumps(NET.document()), ("--ranks", "2", "--volume", "64x64"), 2),
    ],
)
def test_wrong_input_ends_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: list[str], status: int
) -> None:
    """A damaged profile is an input error, wrong words are wrong usage."""
    (tmp_path / "p.json").write_text(text)
    assert main(["recommend", "--spatial", str(tmp_path / "p.json"), *words]) == status
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
