"""Settings files with one fault each: the error names file, key, value, and what is valid."""

import os
import re
from pathlib import Path

import pytest

from slurm_ext.core.errors import InputError, SettingsError
from slurm_ext.core.settings.document import load

FILES = sorted((Path(__file__).parents[2] / "bad_input" / "settings").iterdir())
NOT_TOML = {"torn-half-way.toml", "key-twice.toml", "not-utf-8.toml", "nul-bytes.toml"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_error_says_where_what_and_what_would_be_valid(path: Path) -> None:
    """One line, without a control character, whatever is in the file."""
    with pytest.raises(InputError) as caught:
        load(path)
    said = str(caught.value)
    assert said.startswith(f"{path}: ")
    assert said.isprintable()
    if path.name in NOT_TOML:
        assert re.search("is not TOML|is not UTF-8", said)
    else:
        assert isinstance(caught.value, SettingsError)
        assert re.search(r": [a-z_.]+ = .+ is not valid: expected .+", said)


@pytest.mark.root
@pytest.mark.parametrize("fault", ["foreign", "public"])
def test_root_obeys_no_settings_of_others(tmp_path: Path, fault: str) -> None:
    """They name programs that are run: the message says how to make them root's."""
    path = tmp_path / "dlqueue.toml"
    path.write_text('[site]\nmode = "off"\n')
    assert load(path)["site.mode"] == "off"
    os.chown(path, 65534, -1) if fault == "foreign" else path.chmod(0o666)
    with pytest.raises(InputError, match="chown root, chmod o-w"):
        load(path)


def test_files_of_the_folder_follow_by_name(tmp_path: Path) -> None:
    """A step of an installation is a file, its undo is to remove it; the later of two keys wins."""
    path, folder = tmp_path / "dlqueue.toml", tmp_path / "dlqueue.d"
    path.write_text('[site]\nmode = "off"\n[mode.partition]\ngpu = "act"\n')
    folder.mkdir()
    (folder / "20-b.toml").write_text('[site]\nmode = "advise"\n[mode.partition]\ncpu = "off"\n')
    (folder / "10-a.toml").write_text('[site]\nmode = "shadow"\n[node]\nprobe = true\n')
    (folder / "30-c.toml.off").write_text("not read")
    settings = load(path)
    assert (settings["site.mode"], settings["node.probe"]) == ("advise", True)
    assert settings.partition_modes == {"gpu": "act", "cpu": "off"}
    (folder / "20-b.toml").unlink()
    assert load(path)["site.mode"] == "shadow"


def test_an_error_names_the_file_that_it_is_in(tmp_path: Path) -> None:
    """Not the one that was asked for."""
    (tmp_path / "dlqueue.toml").write_text("")
    (tmp_path / "dlqueue.d").mkdir()
    wrong = tmp_path / "dlqueue.d" / "x.toml"
    wrong.write_text('[site]\nmode = "loud"\n')
    with pytest.raises(SettingsError, match=f"^{re.escape(str(wrong))}: site.mode"):
        load(tmp_path / "dlqueue.toml")


def test_the_folder_alone_is_a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without dlqueue.toml, where nobody named one."""
    monkeypatch.delenv("DLQUEUE_CONFIG", raising=False)
    monkeypatch.setattr("slurm_ext.core.settings.document.DEFAULT_PATH", tmp_path / "dlqueue.toml")
    assert load().source == "defaults"
    (tmp_path / "dlqueue.d").mkdir()
    (tmp_path / "dlqueue.d" / "x.toml").write_text('[site]\nmode = "act"\n')
    assert load()["site.mode"] == "act"


@pytest.mark.root
def test_root_obeys_no_file_of_others_in_the_folder(tmp_path: Path) -> None:
    """Each is looked at as the first one is."""
    (tmp_path / "dlqueue.toml").write_text("")
    (tmp_path / "dlqueue.d").mkdir()
    theirs = tmp_path / "dlqueue.d" / "x.toml"
    theirs.write_text('[site]\nmode = "act"\n')
    os.chown(theirs, 65534, -1)
    with pytest.raises(InputError, match=r"x\.toml: uid 65534"):
        load(tmp_path / "dlqueue.toml")
