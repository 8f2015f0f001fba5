"""The command line's own promises, whatever the sub-command."""

import subprocess
import sys
from pathlib import Path

import pytest

from slurm_ext.cli import main
from slurm_ext.cli.common.commands import COMMANDS


def dlqueue(*words: str, **env: str) -> "subprocess.CompletedProcess[str]":
    """Run the command as people do, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "slurm_ext.cli", *words], capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    """`dlqueue COMMAND --help` works and names the two common options."""
    said = dlqueue(command, "--help")
    assert said.returncode == 0
    assert "--json" in said.stdout
    assert "--config" in said.stdout


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing that exists is hidden."""
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(command in shown for command in COMMANDS)


@pytest.mark.parametrize("words", [[], ["perdict"]])
def test_wrong_usage_is_status_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A missing command shows the valid ones, a misspelt one the nearest, and exits with 2."""
    assert main(words) == 2
    captured = capsys.readouterr()
    assert "predict" in captured.out + captured.err


def test_a_mistyped_command_is_answered_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The command that is meant, not the page of all of them."""
    assert main(["predit", "job.sh"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "dlqueue: no command 'predit': did you mean predict? `dlqueue --help` lists all"
    ]


def test_an_unknown_option_is_status_2() -> None:
    """Argparse's own complaint, not a traceback."""
    said = dlqueue("config", "--smaple")
    assert said.returncode == 2
    assert "Traceback" not in said.stderr


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[site]\nmoed = "act"', "site.mode"),
        ('[site]\nmode = "on"', "off, shadow, advise, act"),
        ("[advisor]\ndeadline_ms = 0", "1 to 1000"),
        ("[advisor]\ndeadline_ms = true", "an integer"),
        ("[site", "is not TOML"),
    ],
)
def test_a_wrong_settings_file_is_one_clear_line(tmp_path: Path, text: str, named: str) -> None:
    """The error names the file, the key and what would be valid; status 1, no traceback."""
    path = tmp_path / "dlqueue.toml"
    path.write_text(text)
    said = dlqueue("config", "--config", str(path))
    assert said.returncode == 1
    assert str(path) in said.stderr
    assert named in said.stderr
    assert len(said.stderr.splitlines()) == 1


def test_doctor_answers_where_nothing_is_installed(tmp_path: Path) -> None:
    """Without advisor, history or slurmctld, doctor says so and what to do, as JSON too."""
    import json

    path = tmp_path / "dlqueue.toml"
    path.write_text(
        f'[paths]\nstate_dir = "{tmp_path}/state"\nsocket = "{tmp_path}/socket"\n'
        f'slurm_conf = "{tmp_path}/slurm.conf"\n'
    )
    said = dlqueue("doctor", "--json", "--config", str(path))
    findings = {f["name"]: f for f in json.loads(said.stdout)["findings"]}
    assert findings["advisor"]["status"] == "warn"
    assert "dlqueue serve" in findings["advisor"]["advice"]
    assert findings["state_dir"]["status"] == "warn"
    assert dlqueue("doctor", "--config", str(path)).returncode == said.returncode
