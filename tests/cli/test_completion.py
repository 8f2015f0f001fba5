"""Completion is tried in the shells themselves; where one is not installed, its test is skipped."""

import shutil
import subprocess
from pathlib import Path

import pytest

from slurm_ext.cli import main
from slurm_ext.cli.common.commands import COMMANDS

ASK_BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
"$(complete -p dlqueue | sed 's/.*-F \\([^ ]*\\).*/\\1/')" dlqueue "${COMP_WORDS[COMP_CWORD]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
ASK_FISH = 'source $argv[1]; complete -C "$argv[2]"'
ASK_ZSH = 'fpath=("$1" $fpath); autoload -Uz compinit; compinit -u -D; print -- $_comps[dlqueue]'


@pytest.fixture
def script(tmp_path: Path, capsys: pytest.CaptureFixture[str], shell: str) -> Path:
    """The script that `dlqueue completion SHELL` prints, in a file."""
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    assert main(["completion", shell]) == 0
    path = tmp_path / f"dlqueue.{shell}"
    path.write_text(capsys.readouterr().out)
    return path


def say(*command: str) -> str:
    """What a shell prints; it succeeds and complains of nothing."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("shell", ["bash"])
def test_bash_completes_commands_and_options(script: Path) -> None:
    """Every command after the first word, an option of a command after that."""
    offered = say("bash", "-c", ASK_BASH, "bash", str(script), "dlqueue", "").split()
    assert set(COMMANDS) <= set(offered)
    offered = say(
        "bash", "-c", ASK_BASH, "bash", str(script), "dlqueue", "predict", "--what"
    ).split()
    assert offered == ["--what-if"]


@pytest.mark.parametrize("shell", ["fish"])
def test_fish_completes_commands_and_verbs(script: Path) -> None:
    """Commands with their description; the verbs of a command that has some."""
    offered = say("fish", "--no-config", "-c", ASK_FISH, str(script), "dlqueue ")
    assert set(COMMANDS) <= {line.partition("\t")[0] for line in offered.splitlines()}
    offered = say("fish", "--no-config", "-c", ASK_FISH, str(script), "dlqueue history ")
    assert {"ls", "show", "export"} <= {line.partition("\t")[0] for line in offered.splitlines()}


@pytest.mark.parametrize("shell", ["zsh"])
def test_zsh_takes_the_script(script: Path) -> None:
    """As a file of its search path it is what completes dlqueue, and its syntax is right."""
    script.rename(script.parent / "_dlqueue")
    assert say("zsh", "-f", "-c", ASK_ZSH, "zsh", str(script.parent)) == "_dlqueue\n"
    assert say("zsh", "-f", "-n", str(script.parent / "_dlqueue")) == ""


@pytest.mark.parametrize("shell", ["tcsh", ""])
def test_an_unknown_shell_is_wrong_usage(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It names the shells that there are."""
    with pytest.raises(SystemExit) as exit_:
        main(["completion", shell])
    assert exit_.value.code == 2
    said = capsys.readouterr().err
    assert all(name in said for name in ("bash", "zsh", "fish"))
