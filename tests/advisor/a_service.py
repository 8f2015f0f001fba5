"""A real `dlqueue serve` with everything under one folder, and no Slurm."""

import json
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from slurm_ext.core.records import Submission
from slurm_ext.core.wire import encode_request
from tests import whole

PING = encode_request("ping")
START_S = 100.0  # a busy machine is no fault
GOLDEN_SPOOL = Path(__file__).parent.parent / "golden" / "spool" / "v1.json"


def until(true: Callable[[], Any], what: str, timeout_s: float = START_S) -> Any:
    """The first true answer; fails the test where none comes."""
    return whole.until(true, f"{what}: not within {timeout_s:g} s", timeout_s)


def golden_record(spool: Path, job_id: int, **changes: Any) -> None:
    """A node's record into the spool, whole at once."""
    record = json.loads(GOLDEN_SPOOL.read_text())
    record["record_id"] = f"cluster-{job_id}-0-n1"
    record["identity"]["job_id"] = job_id
    record.update(changes)
    spool.mkdir(exist_ok=True)
    hidden = spool / f".{job_id}"
    hidden.write_text(json.dumps(record))
    hidden.rename(spool / f"{record['record_id']}.json")


class Service:
    """The process, its files, and clients of it."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.socket = folder / "run" / "advisor.sock"
        self.kill_file = folder / "off"
        self.config = folder / "dlqueue.toml"
        self.log = folder / "serve.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.write(**settings)

    def write(self, **settings: Any) -> None:
        """The settings file; dots are written as __."""
        values: dict[str, Any] = {
            "site__mode": "act",
            "paths__state_dir": str(self.folder / "state"),
            "paths__socket": str(self.socket),
            "paths__kill_file": str(self.kill_file),
            "paths__slurm_bin": str(self.folder),
            "advisor__reconcile_s": 0.2,
            "policy__holdout_share": 0.0,
            **settings,
        }
        text = "".join(f"{k.replace('__', '.')} = {json.dumps(v)}\n" for k, v in values.items())
        self.config.write_text(text)

    def start(self) -> "Service":
        """Start and wait until it answers."""
        command = [sys.executable, "-m", "slurm_ext.cli", "serve", "--config", str(self.config)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stderr=log, stdin=subprocess.DEVNULL)
        until(lambda: self.alive() and self.answers(), "an answer")
        return self

    def answers(self) -> bool:
        """Whether somebody serves at the socket, which an earlier service may have left."""
        try:
            return bool(self.say(encode_request("ping")))
        except OSError:
            return False

    def alive(self) -> bool:
        """Whether the process runs; fails the test where it ended."""
        assert self.process is not None
        assert self.process.poll() is None, self.said()
        return True

    def said(self) -> str:
        """Its log so far."""
        return self.log.read_text() if self.log.exists() else ""

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Signal it and wait; its exit status."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(START_S)

    def connect(self) -> socket.socket:
        """A client's connection."""
        client = socket.socket(socket.AF_UNIX)
        try:
            client.settimeout(START_S)
            client.connect(str(self.socket))
        except OSError:
            client.close()
            raise
        return client

    def say(self, line: bytes) -> dict[str, Any]:
        """The reply to one line on a connection of its own."""
        with self.connect() as client, client.makefile("rb") as replies:
            client.sendall(line)
            reply: dict[str, Any] = json.loads(replies.readline())
            return reply

    def submit(self, **fields: Any) -> dict[str, Any]:
        """The reply to a submission."""
        return self.say(encode_request("submit", a_job(**fields)))

    def writer(self) -> int:
        """The history writer's process id."""
        return int(until(lambda: self.child("history_writer"), "a history writer"))

    def child(self, module: str) -> int | None:
        """Process id of the child that runs a module of this name: folders have names as well."""
        assert self.process is not None
        tasks = Path(f"/proc/{self.process.pid}/task")
        for task in tasks.iterdir():
            for child in (task / "children").read_text().split():
                with suppress(OSError):  # it has ended
                    _, _, run = Path(f"/proc/{child}/cmdline").read_text().partition("\0-m\0")
                    if module in run.partition("\0")[0]:
                        return int(child)
        return None


def a_job(**fields: Any) -> Submission:
    """A plain submission of ada's."""
    plain = {"name": "train.sh", "user_name": "ada", "user_id": 1000, "num_tasks": 1}
    return Submission(**{"script": "#!/bin/sh\npython train.py\n", **plain, **fields})


def ledger(service: Service) -> list[tuple[str, ...]]:
    """Tokens and states in the history."""
    path = service.folder / "state" / "history.db"
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as conn, suppress(sqlite3.OperationalError):
        return conn.execute("SELECT token, state FROM decisions ORDER BY id").fetchall()
    return []


def runs(service: Service) -> int:
    """Rows of runs in the history."""
    path = service.folder / "state" / "history.db"
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path)) as conn, suppress(sqlite3.OperationalError):
        return int(conn.execute("SELECT count(*) FROM runs").fetchone()[0])
    return 0


def deliver(service: Service, job_id: int, **changes: Any) -> None:
    """A node's record into the spool."""
    golden_record(service.folder / "state" / "spool", job_id, **changes)
