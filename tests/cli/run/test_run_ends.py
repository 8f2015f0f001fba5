"""Signals and ends of a program under `dlqueue run`: they are the program's, whatever happens."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.advisor.own_runs.own_history import ARRIVED
from slurm_ext.cli.run.advice import advice
from tests.cli.run.conftest import ROOT, Home

RUN = [sys.executable, "-m", "slurm_ext.cli", "run"]
IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)


def test_a_signal_of_slurms_step_daemon_to_the_command_reaches_the_program(home: Home) -> None:
    """The daemon may have signalled its own child alone: it is handed on as any other is."""
    program = (
        "import signal, time\nseen = []\n"
        "signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))\n"
        "print('ready', flush=True)\n"
        "for _ in range(500): seen or time.sleep(0.01)\n"
        "print(len(seen))"
    )
    words = [*RUN, "--quiet", sys.executable, "-c", program]
    with subprocess.Popen(words, cwd=ROOT, env=home.env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        daemon = f"printf slurmstepd > /proc/$$/comm; kill -USR1 {process.pid}; read end"
        with subprocess.Popen(["sh", "-c", daemon], stdin=subprocess.PIPE):
            assert process.stdout.read() == b"1\n"


@pytest.mark.parametrize("words", [(), ("--off",)], ids=str)
def test_a_program_ignores_no_signal_of_pythons(home: Home, words: tuple[str, ...]) -> None:
    """Without the probe and with it, a reader that goes ends the program as in a shell."""
    show = "grep SigIgn /proc/self/status"
    done = home.dlqueue("run", *words, "--quiet", "sh", "-c", show)
    ignored = int(done.stdout.split()[1], 16)
    assert [number for number in IGNORED if ignored >> (number - 1) & 1] == []


def test_what_cannot_be_run_bare_leaves_the_commands_own_signals() -> None:
    """A message to a reader that has gone must not end it before its status is told."""
    code = (
        "import signal; from slurm_ext.cli.run.child import become;"
        "status = become(['/nowhere/train']);"
        "print(status, *(signal.getsignal(n).name for n in (signal.SIGPIPE, signal.SIGXFSZ)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "127 SIG_IGN SIG_IGN\n"
    assert "/nowhere/train" in done.stderr


def test_an_end_is_seen_where_ends_of_children_are_ignored(home: Home) -> None:
    """Whoever started the command may ignore SIGCHLD: the program's status is still its own."""
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN);"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    words = [sys.executable, "-c", ignoring, *RUN, "--quiet", "sh", "-c", "exit 3"]
    done = subprocess.run(words, cwd=ROOT, env=home.env, timeout=60, check=False)
    assert done.returncode == 3


def test_an_end_that_another_saw_is_a_failure() -> None:
    """Its status is lost, and is not taken for a success."""
    code = (
        "import os; from slurm_ext.cli.run.child import Child, leave_as;"
        "child = Child(['true'], dict(os.environ)); os.waitpid(child.pid, 0);"
        "print(leave_as(child.wait()))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("1\n", "")


@pytest.mark.parametrize(
    "broken",
    ["probed.Watched.ended", "probed.Watched.__exit__", "own_history.keep", "settled.remember"],
)
def test_what_fails_at_the_end_leaves_the_programs_status(home: Home, broken: str) -> None:
    """The end line says what failed; the status is the program's."""
    code = (
        "import sys; from slurm_ext.cli.run import command, probed\n"
        "from slurm_ext.advisor.own_runs import own_history, settled\n"
        "def fail(*_): raise ValueError('broken')\n"
        f"{broken} = fail\n"
        "sys.exit(command.run_plain(['sh', '-c', 'exit 3']))"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=ROOT, env=home.env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (3, "dlqueue run: ValueError('broken')\n")


def test_a_history_that_cannot_be_locked_costs_the_counted_advice_alone(tmp_path: Path) -> None:
    """The advice is then that of the run itself, as where the history is damaged."""
    (tmp_path / ARRIVED).mkdir()
    (tmp_path / ARRIVED / "1.json").write_text("{}")
    (tmp_path / "last_run").mkdir()  # no file that could be opened
    cause: dict[str, Any] = {
        "action": "more workers",
        "next": "more workers",
        "option": None,
        "word": "data",
        "share": 0.5,
        "removable_s": None,
    }
    document: dict[str, Any] = {"record": {}, "command": ""}
    assert advice(str(tmp_path), document, [cause]) == "more workers (data: 50 % of its time)"
