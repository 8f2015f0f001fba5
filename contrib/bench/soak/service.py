"""`dlqueue serve` in a folder of its own, and what it holds: memory, descriptors, disk."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from contrib.bench.soak.times import Times, times_of
from slurm_ext.core.errors import UsageError

START_S, END_S = 60.0, 20.0
KINDS = {  # by a word of the command line
    "slurm_ext.advisor.history_writer": "writer",
    "slurm_ext.advisor.service.question_process": "questions",
    "slurm_ext.cli\0train": "training",
    "slurm_ext.cli\0serve": "advisor",
}
SETTINGS = """[site]
mode = "act"
[paths]
state_dir = "{folder}/state"
socket = "{folder}/socket"
kill_file = "{folder}/off"
slurm_bin = "{folder}"
[node]
folder = "{folder}/state/spool"
spool_dir = "{folder}/node"
"""


class Service:
    """The advisor with its children; its state stays when it ends."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state, self.socket = folder, folder / "state", folder / "socket"
        (self.state / "spool").mkdir(parents=True, exist_ok=True)
        self.config = folder / "dlqueue.toml"
        self.config.write_text(SETTINGS.format(folder=folder), encoding="utf-8")
        argv = [sys.executable, "-P", "-m", "slurm_ext.cli", "serve", "--config", str(self.config)]
        with (folder / "serve.log").open("ab") as said:
            self._process = subprocess.Popen(argv, stdout=said, stderr=said)
        try:
            self._wait()
        except BaseException:
            self.end()
            raise

    def _wait(self) -> None:
        deadline = time.monotonic() + START_S
        while not self.socket.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = (self.folder / "serve.log").read_text(errors="replace").splitlines()
                raise UsageError(f"the service does not start: {said[-1:] or ['it said nothing']}")
            time.sleep(0.05)

    def processes(self) -> dict[str, int]:
        """Pids of the advisor and its children, by what they do."""
        found: dict[str, int] = {}
        for pid in _descendants(self._process.pid):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
                kind = next((name for word, name in KINDS.items() if word in words), None)
                if kind is not None:
                    found.setdefault(kind, pid)
        return found

    def times(self) -> dict[tuple[str, int], Times]:
        """Times of each process so far, by what it does and its pid."""
        found: dict[tuple[str, int], Times] = {}
        for kind, pid in self.processes().items():
            with contextlib.suppress(OSError):
                found[kind, pid] = times_of(Path(f"/proc/{pid}"))
        return found

    def held(self) -> dict[str, float]:
        """MiB and descriptors of each process; of the disk, MiB of history, journals and spool."""
        found: dict[str, float] = {}
        for kind, pid in self.processes().items():
            with contextlib.suppress(OSError, StopIteration):
                lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                kib = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
                found[f"{kind}_mib"] = kib / 1024
                found[f"{kind}_fds"] = len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - count
        found["history_mib"] = _size(self.state / "history.db") / 2**20
        found["log_mib"] = _size(self.state / "history.db-wal") / 2**20  # readers keep it long
        found["journal_mib"] = sum(map(_size, self.state.glob("journal/*"))) / 2**20
        found["backlog"] = self.backlog()
        return found

    def backlog(self) -> int:
        """Records that wait to be taken."""
        return sum(1 for _ in (self.state / "spool").glob("*.json"))

    def end(self) -> None:
        """End it, as an administrator would; it ends its children."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        self.end()


def _descendants(pid: int) -> Iterator[int]:
    yield pid
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _descendants(int(child))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # deleted meanwhile
