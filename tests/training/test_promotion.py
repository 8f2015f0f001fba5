"""How a model comes to serve: whole or not at all, readable by all, and with few earlier ones."""

import os
from pathlib import Path

import pytest

from slurm_ext.core.errors import ModelError
from slurm_ext.training.promotion import KEPT, STALE_S, install, promote


def served(models: Path, text: str) -> str:
    """A model of one file, without a check."""
    return promote(models, "one", {"a.json": text.encode()}, lambda _: None)


def refuse(folder: Path) -> None:
    """A check that finds another model in the folder."""
    raise ModelError(f"{folder.name}: answers otherwise")


def test_the_newest_serves_under_its_contents_name(tmp_path: Path) -> None:
    """The same content is the same model, and is not written again."""
    first, other = served(tmp_path / "m", "1"), served(tmp_path / "m", "2")
    assert first != other
    assert (tmp_path / "m" / "current" / "a.json").read_text() == "2"
    before = (tmp_path / "m" / first / "a.json").stat().st_ino
    assert served(tmp_path / "m", "1") == first
    assert (tmp_path / "m" / "current" / "a.json").stat().st_ino == before


def test_what_is_not_reproduced_changes_nothing(tmp_path: Path) -> None:
    """The model that serves goes on, and no draft is left."""
    served(tmp_path, "1")
    with pytest.raises(ModelError, match="answers otherwise"):
        promote(tmp_path, "one", {"a.json": b"2"}, refuse)
    assert (tmp_path / "current" / "a.json").read_text() == "1"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_damaged_one_of_the_same_name_is_written_again(tmp_path: Path) -> None:
    """Trained again on the same runs, it is whole again: also where it never serves otherwise."""
    files = {"a.json": b"1"}

    def check(folder: Path) -> None:
        if (folder / "a.json").read_bytes() != b"1":
            raise ModelError("damaged")

    name = promote(tmp_path, "one", files, check)
    (tmp_path / name / "a.json").write_bytes(b"torn")
    assert promote(tmp_path, "one", files, check) == name
    assert (tmp_path / "current" / "a.json").read_bytes() == b"1"


def test_everybody_may_read_it_whoever_trained(tmp_path: Path) -> None:
    """An administrator whose umask is 077 trains; the advisor is another user."""
    before = os.umask(0o077)
    try:
        name = served(tmp_path / "m", "1")
    finally:
        os.umask(before)
    assert (tmp_path / "m" / name).stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "m" / name / "a.json").stat().st_mode & 0o777 == 0o644


def test_earlier_models_do_not_fill_the_disk(tmp_path: Path) -> None:
    """The serving one, the newest few before it, and no draft of a training that was killed."""
    for day in range(KEPT + 4):
        name = served(tmp_path, str(day))
        os.utime(tmp_path / name, (day, day))
    for draft, age_s in ((".draft-old", 2 * STALE_S), (".draft-new", 0.0)):
        (tmp_path / draft).mkdir()
        now = (tmp_path / draft).stat().st_mtime
        os.utime(tmp_path / draft, (now - age_s, now - age_s))
    (tmp_path / "other").mkdir()
    served(tmp_path, "0")  # the oldest serves again
    left = {path.name for path in tmp_path.iterdir()}
    assert {".draft-new", "other", "current"} <= left
    assert len(left) == 3 + 1 + KEPT
    assert (tmp_path / "current" / "a.json").read_text() == "0"


def test_a_full_or_foreign_disk_is_said(tmp_path: Path) -> None:
    """A ModelError with the place and the reason, for every kind alike."""
    (tmp_path / "models").write_text("a file")
    with pytest.raises(ModelError, match=r"models: cannot be written: Not a directory"):
        install(tmp_path / "models", "one", {"a.json": b"1"})
    with pytest.raises(ModelError, match=r"models/x: cannot be written: Not a directory"):
        served(tmp_path / "models" / "x", "1")
