"""The port for records and the port for metrics: silent, slow and filling peers."""

import json
import re
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contrib.bench.borders.attack import ATTACKER, VICTIM, Attack, Happened, as_user
from contrib.bench.borders.records import HELD, SEND, asked, cluster, forged
from contrib.bench.borders.run_folder import run_job, soon
from slurm_ext.core.errors import SandboxError
from slurm_ext.sandbox import Sandbox

FILL_S = 6.0
JOBS = 20
MOST_MIB = 33
READY_S = 20.0
SILENT = """
import socket, sys, time
host, port, count, said = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4].encode()
links = []
for _ in range(count):
    links.append(socket.create_connection((host, port), timeout=20))
    links[-1].sendall(said)
print("ready", flush=True)
while True:
    for n, link in enumerate(links):
        time.sleep(0.05)
        try:
            link.settimeout(0.001)
            gone = link.recv(1, socket.MSG_PEEK) == b""
        except TimeoutError:
            gone = False
        except OSError:
            gone = True
        if gone:
            try:
                links[n] = socket.create_connection((host, port), timeout=20)
                links[n].sendall(said)
            except OSError:
                pass
"""
FILL = SEND.replace(
    "for line in sys.stdin.buffer:",
    "import itertools\nfor line in itertools.cycle(sys.stdin.buffer.readlines()):",
)


@contextmanager
def silent(host: str, port: str, count: int, said: str) -> Iterator[None]:
    """An attacker's connections that say so little; those that end are opened again."""
    words = ["python3", "-c", SILENT, host, port, str(count), said]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, cwd="/", **as_user(ATTACKER)) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != b"ready\n":
                raise SandboxError("the attacker could not connect")
            yield
        finally:
            process.kill()


def stream_of(sandbox: Sandbox) -> tuple[str, str]:
    """Host and port of the stream."""
    host, _, port = str(sandbox.settings["advisor.listen"]).rpartition(":")
    return host, port


def _silent_connections(folder: Path) -> Happened:
    with cluster(folder) as sandbox:
        run_job(sandbox, VICTIM, HELD)
        with silent(*stream_of(sandbox), 64, '{"v":1,'):
            began_s = time.monotonic()
            job_id = run_job(sandbox, VICTIM, HELD)
            epilogs = "SELECT 1 FROM runs WHERE job_id = ? AND source = 'epilog'"
            taken = soon(lambda: asked(sandbox, epilogs, job_id))
            took_s = time.monotonic() - began_s
    what = f"a record was {'taken' if taken else 'not taken'} after {took_s:.1f} s"
    return Happened(held=taken, what=what)


def _invalid_records(folder: Path) -> Happened:
    """The site takes records from job owners; those of JOBS jobs come again and again."""
    with cluster(folder, **{"advisor.accept_job_owners": True}) as sandbox:
        user = as_user(ATTACKER)
        argv = ("--comment=dlqueue=off", f"--array=1-{JOBS}")
        first, _ = sandbox.sbatch(*argv, script=HELD, **user)
        jobs = range(first, first + JOBS)
        for job_id in jobs:
            sandbox.wait(job_id)
        pad = {"v": 9, "pad": "x" * 1_000_000}
        records = [forged(sandbox, job_id, user["user"]) | pad for job_id in jobs]
        _fill(sandbox, "".join(json.dumps(record) + "\n" for record in records).encode())
        time.sleep(1.0)  # two rounds of the history writer
        kept = [sandbox.path("dlqueue/aside"), sandbox.path("dlqueue/spool")]
        files = [f for where in kept if where.is_dir() for f in where.iterdir()]
        mib = sum(f.stat().st_size for f in files if f.exists()) / (1 << 20)
        dropped = asked(sandbox, "SELECT records FROM set_aside_dropped")
    what = f"{mib:.1f} MiB in {len(files)} files after {FILL_S:.0f} s; dropped: {dropped}"
    return Happened(held=bool(files) and mib < MOST_MIB, what=what)


def _fill(sandbox: Sandbox, lines: bytes) -> None:
    """Let the attacker send the records for FILL_S seconds."""
    words = ["python3", "-c", FILL, *stream_of(sandbox), str(sandbox.layout.munge_socket)]
    pipe = subprocess.PIPE
    user = as_user(ATTACKER)
    with subprocess.Popen(words, stdin=pipe, stdout=subprocess.DEVNULL, cwd="/", **user) as process:
        assert process.stdin is not None
        process.stdin.write(lines)
        process.stdin.close()
        time.sleep(FILL_S)
        process.kill()


def _body_first(folder: Path) -> Happened:
    """A header without a credential is answered before a byte of its record was sent."""
    with cluster(folder) as sandbox:
        run_job(sandbox, VICTIM, HELD)
        with socket.create_connection(stream_of(sandbox), READY_S) as link:
            said = f'{{"v":1,"kind":"record","record_id":"a","bytes":{4 << 20},"sha256":"0",'
            link.sendall(said.encode() + b'"credential":"MUNGE:x:"}\n')
            try:
                reply = link.makefile("rb").readline()
            except TimeoutError:
                reply = b""
    what = f"answered with {reply[:60]!r}" if reply else "the advisor waits for 4 MiB"
    return Happened(held=b"error" in reply, what=what)


def _slow_scrapes(folder: Path) -> Happened:
    with cluster(folder, **{"metrics.listen": "127.0.0.1:0"}) as sandbox:
        soon(lambda: "metrics at" in sandbox.log("advisor"))
        found = re.search(r"http://([\d.]+):(\d+)/metrics", sandbox.log("advisor"))
        if found is None:
            raise SandboxError("the advisor tells no metrics")
        with silent(found[1], found[2], 16, "GET /metrics HT"):
            began_s = time.monotonic()
            try:
                with urllib.request.urlopen(found[0], timeout=READY_S) as answer:
                    body = answer.read()
            except OSError as error:
                return Happened(held=False, what=f"the scrape failed: {error}")
            took_s = time.monotonic() - began_s
    return Happened(held=bool(body), what=f"a scrape was answered after {took_s:.2f} s")


ATTACKS = (
    Attack(
        name="silent_connections",
        row=8,
        tried="64 connections to the port for records say half a header, and are opened again",
        before="64 idle connections stopped all deliveries",
        act=_silent_connections,
    ),
    Attack(
        name="invalid_records",
        row=8,
        tried="a job's user streams records of a megabyte that no history takes",
        before="159 MiB were kept after 6 s",
        act=_invalid_records,
    ),
    Attack(
        name="body_without_credential",
        row=8,
        tried="a header announces 4 MiB under a forged credential",
        before="the record was read before its credential was looked at",
        act=_body_first,
    ),
    Attack(
        name="slow_scrapes",
        row=12,
        tried="16 clients of /metrics send half a request and keep the connection",
        before="each held up every scrape for ten seconds",
        act=_slow_scrapes,
    ),
)
