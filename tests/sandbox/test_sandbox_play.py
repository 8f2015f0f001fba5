"""A sandbox to play with acts, has examples, and names commands that exist."""

import argparse
from pathlib import Path

import pytest

from slurm_ext.cli.common.commands import COMMANDS
from slurm_ext.cli.sandbox import command, play


def spec(*words: str) -> object:
    """The cluster that `dlqueue sandbox up` would build."""
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return command._spec(parser.parse_args(["up", *words], argparse.Namespace(config=None)))


def test_all_of_dlqueue_acts_from_the_first_job_on() -> None:
    """With the probe; a plain sandbox has nothing of ours set."""
    settings = spec("--dlqueue").settings  # type: ignore[attr-defined]  # spec is of a cluster
    assert (settings["site.mode"], settings["node.probe"]) == ("act", True)
    assert spec().settings == {}  # type: ignore[attr-defined]  # as above


def test_what_a_user_sets_wins() -> None:
    """A sandbox in shadow mode is possible."""
    assert play.settings({"site.mode": "shadow"})["site.mode"] == "shadow"


def test_commands_to_try_are_commands(tmp_path: Path) -> None:
    """The examples are there, the script that is named is one of them, commands are dlqueue's."""
    work = play.put_examples(tmp_path)
    assert work is not None
    lines = list(play.to_try("inside", work))
    assert lines[0] == f"cd {work}"
    (script,) = (word for word in lines[1].split() if word.endswith(".sbatch"))
    assert (work / script).exists()
    ours = [line.split()[2] for line in lines if line.startswith("inside dlqueue")]
    assert ours
    assert set(ours) <= set(COMMANDS)
    assert all(line.startswith("inside") for line in play.to_try("inside", None))


def test_dlqueue_is_found_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This interpreter's folder comes first only where PATH has no dlqueue."""
    monkeypatch.setattr("sys.executable", "/opt/ours/bin/python")
    assert play.with_our_commands({"PATH": str(tmp_path)})["PATH"] == f"/opt/ours/bin:{tmp_path}"
    theirs = tmp_path / "dlqueue"
    theirs.write_text("#!/bin/sh\n")
    theirs.chmod(0o755)
    assert play.with_our_commands({"PATH": str(tmp_path)})["PATH"] == str(tmp_path)
