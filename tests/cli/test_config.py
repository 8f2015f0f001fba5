"""`dlqueue config`: what is in force, and what is rendered from it."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from slurm_ext.cli import main
from slurm_ext.core.settings.document import TABLE, parse, sample

HOOKS = ("prolog", "task_prolog", "epilog")


def test_the_sample_can_be_used_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """`--sample` prints a file that is read without complaint."""
    assert main(["config", "--sample"]) == 0
    assert parse(capsys.readouterr().out, "sample").source == "sample"
    assert main(["config", "--sample", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"sample": sample()}


def test_every_setting_is_shown_with_its_origin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file's value where it has one, the default elsewhere, overrides among them."""
    path = tmp_path / "dlqueue.toml"
    path.write_text('[site]\ncluster = "c"\n[mode.partition]\n"a b" = "act"\n')
    assert main(["config", "--json", "--config", str(path)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["source"] == str(path)
    assert shown["settings"] == {s.key: s.default for s in TABLE} | {"site.cluster": "c"}
    assert shown["modes"] == {"partition": {"a b": "act"}, "account": {}}


def test_written_files_are_those_that_install_names(tmp_path: Path) -> None:
    """node.json, three launchers that run as they are, and Lua that names its own folder."""
    toml = tmp_path / "dlqueue.toml"
    toml.write_text(sample().replace("/var/spool/dlqueue", f"{tmp_path}/spool"))
    assert main(["config", "--write", str(tmp_path / "out"), "--config", str(toml)]) == 0
    assert json.loads((tmp_path / "out/node.json").read_text())["node.probe"] is False
    for hook in HOOKS:
        launcher = tmp_path / "out/hooks" / hook
        assert os.access(launcher, os.X_OK)
        assert subprocess.run([launcher], env={}, timeout=30).returncode == 0
        assert str(tmp_path / "out/node.json") in launcher.read_text()
    shim = (tmp_path / "out/lua/job_submit.lua").read_text()
    assert str(tmp_path / "out/lua/dlqueue.lua") in shim


def test_written_again_nothing_else_changes(tmp_path: Path) -> None:
    """A second time gives the same files, and leaves what is not dlqueue's."""
    (tmp_path / "mine").write_text("mine")
    assert main(["config", "--write", str(tmp_path)]) == 0
    first = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert main(["config", "--write", str(tmp_path)]) == 0
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == first


def test_a_folder_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One clear line, and no half-written file."""
    (tmp_path / "hooks").write_text("a file is in the way")
    assert main(["config", "--write", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert str(tmp_path / "hooks") in said
    assert len(said.splitlines()) == 1
    assert not list(tmp_path.rglob(".*.part"))


def test_what_stands_in_the_way_leaves_no_draft(tmp_path: Path) -> None:
    """A folder of a file's name: said, and nothing half-written beside it."""
    (tmp_path / "node.json").mkdir()
    assert main(["config", "--write", str(tmp_path)]) == 1
    assert not list(tmp_path.glob(".*.part"))


def test_wrong_settings_are_not_rendered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is rendered before stays when dlqueue.toml has a fault."""
    toml = tmp_path / "dlqueue.toml"
    toml.write_text("[node]\nsample_s = 1e9\n")
    folder = tmp_path / "out"
    assert main(["config", "--write", str(folder), "--config", str(toml)]) == 1
    assert "node.sample_s" in capsys.readouterr().err
    assert not folder.exists()
