"""Record a terminal on a private Slurm: `python -m contrib.docs.record docs/images/terminal.cast`.

Every command is typed into the recording and really run, on a terminal of its own; what it prints
goes into the file with its time. The form is asciicast, version 2, so that other players take it.
`python -m contrib.docs.terminal` makes the picture of it.
"""

import argparse
import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from slurm_ext.cli.demo.loop import spec
from slurm_ext.cli.sandbox.play import put_examples
from slurm_ext.sandbox import Sandbox

COLUMNS, ROWS = 96, 40
PROMPT = "\x1b[1;32m$\x1b[0m "
TYPES_S, READS_S = 0.045, 1.2  # a character, and the pause before the next command
SCRIPT = "slow_storage_train.sbatch"
COMMANDS = (
    f"cat {SCRIPT}",
    f"sbatch --wait {SCRIPT}",
    f"sbatch --wait {SCRIPT}",
    "dlqueue explain 2",
)

Event = tuple[float, str]


def recorded(commands: Sequence[str], folder: Path, env: Mapping[str, str]) -> Iterator[Event]:
    """Seconds since the start, and what appears then."""
    now = 0.0
    for command in commands:
        yield now, PROMPT
        for letter in command:
            now += TYPES_S
            yield now, letter
        now += TYPES_S
        yield now, "\r\n"
        for later, text in printed(command, folder, env):
            now += later
            yield now, text
        now += READS_S


def printed(command: str, folder: Path, env: Mapping[str, str]) -> Iterator[Event]:
    """Seconds since the piece before, and what a command prints on a terminal of its own."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    began = time.monotonic()
    process = subprocess.Popen(
        ["sh", "-c", command], cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    while data := _read(ours):
        now = time.monotonic()
        yield now - began, data.decode()
        began = now
    os.close(ours)
    if process.wait() != 0:
        sys.exit(f"{command} ended with {process.returncode}")
    yield time.monotonic() - began, ""


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # nobody holds its other end any more
        return b""


def cast(events: Iterator[Event]) -> str:
    """The recording as a file."""
    head = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "dlqueue"}
    lines = [json.dumps(head), *(json.dumps([round(at, 3), "o", text]) for at, text in events)]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Start a Slurm with dlqueue, record, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    file = parser.parse_args().file
    with (
        tempfile.TemporaryDirectory(prefix="dlq-") as folder,
        Sandbox(Path(folder) / "slurm", spec({})) as sandbox,
    ):
        work = put_examples(sandbox.layout.root)
        path = f"{Path(sys.executable).parent}:{sandbox.env['PATH']}"
        env = {**sandbox.env, "PATH": path, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
        assert work is not None
        file.write_text(cast(recorded(COMMANDS, work, env)))


if __name__ == "__main__":
    main()
