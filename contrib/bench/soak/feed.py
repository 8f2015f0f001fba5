"""Submissions and records of a made-up cluster, by the ways that real ones take."""

import json
import random
import socket
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, Self

from contrib.bench.common import synthetic_history
from slurm_ext.core.wire import encode_request
from slurm_ext.node.transport.deliver import open_channel

FIRST_JOB = 10_000_000
WAIT_S = 10.0
MOST_WAITING = 2000  # records in the spool: nodes' workers would wait, too
NODES = 16  # workers that deliver at once, as each waits twice for the disk with every record
BATCH, EVERY = 64, 2  # records of a turn, and one submission for so many


class Feed:
    """Goes on behind the last job that the history has."""

    def __init__(self, folder: Path, nodes: int = NODES) -> None:
        self._socket, self._nodes = folder / "socket", folder / "node-records"
        self._state = folder / "state"
        self._config: Any = SimpleNamespace(transport="folder", folder=str(self._state / "spool"))
        self.first = max(FIRST_JOB, self._last() + 1)
        self.next = self.first
        self._count, self._workers = nodes, ThreadPoolExecutor(nodes, thread_name_prefix="node")
        self._on_the_way: list[Future[None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        self._workers.shutdown(cancel_futures=True)

    def turn(self) -> list[float]:
        """Submissions, then records that carry their tokens; milliseconds of each submission.

        The nodes deliver while the next turn's jobs are submitted.
        """
        rng = random.Random(self.next)
        times, records = [], []
        for number in range(BATCH):
            record = synthetic_history.record(self.next, rng)
            if number % EVERY == 0:
                token, took_ms = self._submitted(record)
                record["decision"] = token
                times.append(took_ms)
            records.append(record)
            self.next += 1
        self.delivered()
        each = -(-BATCH // self._count)
        parts = [records[at : at + each] for at in range(0, BATCH, each)]
        self._on_the_way = [
            self._workers.submit(self._deliver, self._nodes / f"n{number}", part)
            for number, part in enumerate(parts)
        ]
        return times

    def delivered(self) -> None:
        """Wait until the last turn's records are in the spool; raise what a node met."""
        for part in self._on_the_way:
            part.result()
        self._on_the_way = []

    def _submitted(self, record: dict[str, Any]) -> tuple[str | None, float]:
        """The token of a submission by the record's user, and how long slurmctld would wait."""
        who = record["identity"]
        number = who["uid"] - 1000
        job = replace(synthetic_history.submission(number), name=who["job_name"])
        line = encode_request("submit", job)
        began = time.perf_counter()
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(WAIT_S)
            one.connect(str(self._socket))
            one.sendall(line)
            reply = b"".join(_until_line(one))
        took_ms = 1000 * (time.perf_counter() - began)
        return json.loads(reply.splitlines()[0]).get("decision"), took_ms

    def _deliver(self, own: Path, records: list[dict[str, Any]]) -> None:
        """From the node's `own` folder into the advisor's, by the worker's code."""
        own.mkdir(parents=True, exist_ok=True)
        with open_channel(self._config) as send:
            for record in records:
                path = own / f"{record['record_id']}.json"
                path.write_text(json.dumps(record, separators=(",", ":")))
                send(str(path))
                path.unlink()

    def taken(self) -> int:
        """Runs that the history has."""
        return self._asked("SELECT count(*) FROM runs")

    def _last(self) -> int:
        return self._asked("SELECT coalesce(max(job_id), 0) FROM runs")

    def _asked(self, query: str) -> int:
        path = self._state / "history.db"
        if not path.exists():
            return 0
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=WAIT_S)) as conn:
            try:
                return int(conn.execute(query).fetchone()[0])
            except sqlite3.OperationalError:  # the writer is only just making it
                return 0


def _until_line(one: socket.socket) -> Iterator[bytes]:
    while chunk := one.recv(1 << 16):
        yield chunk
        if b"\n" in chunk:
            return
