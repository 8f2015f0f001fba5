"""Parts of newer MPS: static partitions of multiprocessors, and protocol 3.

By NVIDIA's manual of MPS, release 615: `-S` with `sm_partition add UUID CHUNKS`, `lspart` and the
client's CUDA_MPS_SM_PARTITION; `-p 3` with `server list`, and `-q`.
"""

import contextlib
import re
import subprocess
import time
from collections.abc import Iterator

from contrib.bench.gpu.clients import client
from contrib.bench.gpu.here import Here
from contrib.bench.gpu.mps_jobs import MpsJobs
from contrib.bench.gpu.report import AbsentError, Report
from slurm_ext.node.mps.child import run
from slurm_ext.node.mps.daemon import MpsDaemon
from slurm_ext.node.mps.rules import DEVICES, LOG, PIPE

PARTITION = "CUDA_MPS_SM_PARTITION"
CHUNKS = (1, 2)
TRIES = 3
START_S, ASK_S = 4.0, 5.0  # a daemon is there in 0.1 s
_ID = re.compile(r"GPU-[0-9a-f-]+/\S+")


def version(here: Here) -> str | None:
    """Version of the control program, in its own words; None where it has none."""
    argv = [here.control, "-v"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=ASK_S, check=False, input=""
        )
        return (done.stdout + done.stderr).strip()[:120] or None
    return None


@contextlib.contextmanager
def _started(here: Here, report: Report, jobs: MpsJobs, *options: str) -> Iterator[MpsDaemon]:
    """A daemon with these options. Raises AbsentError where the control program refuses them."""
    daemon = jobs.own_daemon(1)
    device = here.gpus[0] if here.gpus else here.index
    env = {**daemon.env(), DEVICES: device, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    began = time.monotonic()
    try:
        argv = [here.control, "-d", *options]
        said = run(argv, env, jobs.owner, began + START_S, groups=True)
        if said is None:
            raise AbsentError(f"the control program does not take {' '.join(options)}")
        while daemon.process() is None:
            if time.monotonic() > began + START_S:
                words = " ".join(said.split())[:120] or "not a word"
                raise AbsentError(f"with {' '.join(options)} no daemon came: {words}")
            time.sleep(0.01)
        report.add(f"start {' '.join(options)}", time.monotonic() - began, "s")
        yield daemon
    finally:
        if not daemon.end(0.5, time.monotonic() + START_S):
            report.lacks(f"end of {' '.join(options)}", "the daemon did not end")


def _client_env(daemon: MpsDaemon) -> dict[str, str]:
    known = daemon.env()
    return {PIPE: known[PIPE], LOG: known[LOG]}


def static(here: Here, report: Report, jobs: MpsJobs, clients: bool) -> None:
    """Two partitions of one and two chunks, and what their clients see of the GPU."""
    uuid = here.uuid
    for _ in range(TRIES):
        with _started(here, report, jobs, "-S") as daemon:
            partitions = [_added(daemon, uuid, chunks) for chunks in CHUNKS]
            report.facts["lspart"] = (daemon.ask("lspart", _soon()) or "").splitlines()
            if not clients:
                raise AbsentError("no client can be started (see clients)")
            for chunks, partition in zip(CHUNKS, partitions, strict=True):
                with client(here, {**_client_env(daemon), PARTITION: partition}) as one:
                    report.add(f"static_sms_of_{chunks}", one.first["sms"])


def _added(daemon: MpsDaemon, uuid: str, chunks: int) -> str:
    said = daemon.ask(f"sm_partition add {uuid} {chunks}", _soon())
    found = _ID.search(said or "")
    if found is None:
        raise AbsentError(f"sm_partition add: {' '.join((said or 'no answer').split())[:120]}")
    return found[0]


def third(here: Here, report: Report, jobs: MpsJobs, clients: bool) -> None:
    """A daemon of protocol 3, whose commands are arguments; a client as ever; and its end."""
    for _ in range(TRIES):
        with _started(here, report, jobs, "-p", "3") as daemon:
            if clients:
                with client(here, _client_env(daemon)) as one:
                    report.add("protocol_3_client_start", one.first["start_s"], "s")
                    report.facts["server list"] = _told(daemon, jobs, "server", "list")
            began = time.monotonic()
            _told(daemon, jobs, "-q")
            while daemon.processes() and time.monotonic() < began + ASK_S:
                time.sleep(0.01)
            report.add("protocol_3_end", time.monotonic() - began, "s")
            report.add("protocol_3_ended", not daemon.processes())


def _told(daemon: MpsDaemon, jobs: MpsJobs, *words: str) -> list[str]:
    """Lines of what the control program answers to arguments."""
    said = run([daemon.control, *words], daemon.env(), jobs.owner, _soon())
    if said is None:
        raise AbsentError(f"{' '.join(words)}: no answer")
    return said.strip().splitlines()


def _soon() -> float:
    return time.monotonic() + ASK_S
