"""What commands print goes to whatever standard output is: closed, full, of another encoding."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_ext.cli.common.commands import COMMANDS
from slurm_ext.cli.common.streams import plain
from tests.whole import until

DLQUEUE = f"{sys.executable} -m slurm_ext.cli"


def shell(line: str, folder: Path, **env: str) -> "subprocess.CompletedProcess[bytes]":
    """A line of shell with the settings' defaults, in a folder."""
    (folder / "none.toml").write_text("")
    around = {**os.environ, "DLQUEUE_CONFIG": str(folder / "none.toml"), **env}
    command = ["bash", "-c", f"set -o pipefail; {line}"]
    return subprocess.run(command, capture_output=True, env=around, cwd=folder, timeout=60)


@pytest.mark.parametrize("command", ["--help", "config", "completion bash"])
def test_a_disk_that_is_full_is_one_line(command: str, tmp_path: Path) -> None:
    """Exit 1 and what went wrong; Python says nothing of its own."""
    done = shell(f"{DLQUEUE} {command} > /dev/full", tmp_path)
    told = f"dlqueue {command.partition(' ')[0]}: standard output: No space left on device\n"
    assert (done.returncode, done.stderr.decode()) == (1, told)


@pytest.mark.parametrize("command", ["--help", "config", "completion bash", "doctor"])
def test_a_reader_that_goes_away_is_no_complaint(command: str, tmp_path: Path) -> None:
    """`dlqueue config | head -1`."""
    assert shell(f"{DLQUEUE} {command} | true", tmp_path).stderr == b""


def test_closed_output_hurts_nobody(tmp_path: Path) -> None:
    """No file that is opened later takes its number, as a database would."""
    done = shell(f"{DLQUEUE} config >&-; {DLQUEUE} doctor >&- 2>&- <&-", tmp_path)
    assert (done.returncode in (0, 1), done.stderr) == (True, b"")


def test_closed_input_is_an_empty_file(tmp_path: Path) -> None:
    """A service without a standard input is told that the file has no header."""
    (tmp_path / "none.toml").write_text(f'[paths]\nstate_dir = "{tmp_path}"\n')
    around = {**os.environ, "DLQUEUE_CONFIG": str(tmp_path / "none.toml")}
    command = ["bash", "-c", f"{DLQUEUE} history import - <&-"]
    done = subprocess.run(command, capture_output=True, text=True, env=around, timeout=60)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "has no column JobIDRaw" in done.stderr


def test_frames_are_printed_where_the_encoding_has_none(tmp_path: Path) -> None:
    """With ASCII, and in a terminal of twenty columns."""
    done = shell(f"{DLQUEUE} doctor", tmp_path, PYTHONIOENCODING="ascii", COLUMNS="20")
    assert (done.returncode in (0, 1), done.stderr) == (True, b"")
    assert b"ok" in done.stdout


def test_help_is_there_without_a_home(tmp_path: Path) -> None:
    """No HOME, no terminal, no locale, no PATH."""
    done = shell(f"env -i {DLQUEUE} predict --help", tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("command", ["predict", "simulate"])
def test_help_of_a_command_has_two_names(command: str, tmp_path: Path) -> None:
    """`dlqueue help predict` is `dlqueue predict --help`."""
    assert command in COMMANDS
    asked = [shell(f"{DLQUEUE} {line}", tmp_path) for line in (f"help {command}", f"{command} -h")]
    assert asked[0].stdout == asked[1].stdout


def test_an_interrupted_command_ends_without_a_traceback(tmp_path: Path) -> None:
    """Ctrl-C while it waits for its file: exit 130."""
    os.mkfifo(tmp_path / "trace")
    command = [sys.executable, "-m", "slurm_ext.cli", "simulate", "trace", "--nodes", "1"]
    heard = ["env", "--default-signal=INT"]  # a suite in the background of a shell ignores it
    child = subprocess.Popen([*heard, *command], cwd=tmp_path, stderr=subprocess.PIPE)
    (end,) = until(lambda: opened(tmp_path / "trace"), "it does not open the trace")
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=60)[1] == b""
    assert child.returncode == 130
    os.close(end)


def opened(fifo: Path) -> list[int]:
    """The writing end, as soon as somebody reads."""
    try:
        return [os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)]
    except OSError:
        return []


def test_an_error_drives_no_terminal() -> None:
    """Whatever a file's name holds; the lines of what another program said stay."""
    assert plain("a\x1b[31mb\nc\u202e é") == "a\\x1b[31mb\nc\\u202e é"
