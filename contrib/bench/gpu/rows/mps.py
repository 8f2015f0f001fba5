"""The life of MPS by the hooks' own code: started, joined, limited, faulty, ended; then the new.

Two jobs share a daemon as two jobs of Slurm would; their programs are small ones on libcuda. Static
partitions (`-S`) and protocol 3 are tried on daemons of their own.
"""

import time
from collections.abc import Callable
from pathlib import Path

from contrib.bench.gpu.clients import Client, client
from contrib.bench.gpu.here import Here
from contrib.bench.gpu.mps_jobs import MpsJobs
from contrib.bench.gpu.report import AbsentError, Report, repeats
from contrib.bench.gpu.rows import mps_newer
from slurm_ext.node.mps.rules import MEMORY

HALF = 50.0
SHORT_S = 5.0


def measure(here: Here, report: Report) -> None:
    """Each part in turn; one that this driver has not is named."""
    with MpsJobs(here) as jobs:
        report.facts["version"] = mps_newer.version(here)
        report.facts["processes before"] = _others()
        _tried(report, "clients", lambda: _plain(here, report))
        plain: int | None = report.facts.get("multiprocessors")  # None: no client starts
        for number in repeats(0.6 * here.seconds):
            _life(here, report, jobs, 10 * number, plain)
        if plain is not None:
            _tried(report, "fault", lambda: _faulty(here, report, jobs))
            _tried(report, "force", lambda: _forced(here, report, jobs))
        report.add("left_behind", jobs.remains())
        clients = plain is not None
        _tried(report, "static", lambda: mps_newer.static(here, report, jobs, clients))
        _tried(report, "protocol 3", lambda: mps_newer.third(here, report, jobs, clients))


def _tried(report: Report, part: str, act: Callable[[], None]) -> None:
    try:
        act()
    except AbsentError as error:
        report.lacks(part, str(error))


def _others() -> int:
    """Processes that are called like MPS, of anybody."""
    names = (path for path in Path("/proc").glob("[0-9]*/comm"))
    return sum(_text(path).startswith("nvidia-cuda-mps") for path in names)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _plain(here: Here, report: Report) -> None:
    """A client without MPS, often: the baseline."""
    for _ in range(3):
        with client(here) as one:
            report.add("client_start_without", one.first["start_s"], "s")
            report.facts["multiprocessors"] = int(one.first["sms"])


def _life(here: Here, report: Report, jobs: MpsJobs, base: int, plain: int | None) -> None:
    """Two jobs: the first one's prolog starts the daemon, the last one's epilog ends it.

    Slurm names the second one's GPU by its UUID, as 26.05 does.
    """
    began = time.monotonic()
    first = jobs.start(base + 1, HALF)
    started = time.monotonic()
    second = jobs.start(base + 2, HALF, here.gpus[0] if here.gpus else "")
    report.add("start", started - began, "s")
    report.add("join", time.monotonic() - started, "s")
    report.add("joined_the_same", first == second)
    if plain is not None:
        _limited(here, report, jobs, first, plain)
    jobs.end(base + 1)
    report.add("lives_for_the_second", jobs.daemon(second).process() is not None)
    began = time.monotonic()
    jobs.end(base + 2)
    report.add("end", time.monotonic() - began, "s")
    report.add("ended", not jobs.daemon(second).processes())


def _limited(here: Here, report: Report, jobs: MpsJobs, env: dict[str, str], plain: int) -> None:
    """Two clients at once, and whether their limits hold."""
    daemon, deadline = jobs.daemon(env), time.monotonic() + SHORT_S
    with client(here, env) as one, client(here, env) as two:
        report.add("client_start_first", one.first["start_s"], "s")
        report.add("client_start_next", two.first["start_s"], "s")
        if plain:
            report.add("sm_share_of_half", one.first["sms"] / plain)
        servers = (daemon.ask("get_server_list", deadline) or "").split()
        report.add("servers", len(servers))
        known = [daemon.ask(f"get_client_list {pid}", deadline) or "" for pid in servers]
        pids = {word for text in known for word in text.split()}
        report.add("clients_listed", len(pids & {str(one.pid), str(two.pid)}))
        report.add("not_in_fault", not daemon.in_fault(deadline))
        _memory(report, one, env)


def _memory(report: Report, one: Client, env: dict[str, str]) -> None:
    """A client may not take more than its limit, and may take half of it."""
    limit = env.get(MEMORY, "").removeprefix("0=").removesuffix("M")
    if not limit.isdecimal():
        report.lacks("memory limit", "nvidia-smi beside the control program tells no memory")
        return
    most = int(limit)
    report.facts["memory limit MiB"] = most
    report.add("memory_over_refused", one.act(alloc_mib=most + 256)["cuMemAlloc_v2"] != 0)
    report.add("memory_within_given", one.act(alloc_mib=most // 2)["cuMemAlloc_v2"] == 0)


def _faulty(here: Here, report: Report, jobs: MpsJobs) -> None:
    """One client writes where it must not: its neighbour, and the job's record."""
    env, other = jobs.start(901, HALF), jobs.start(902, HALF)
    try:
        with client(here, env) as bad, client(here, other) as good:
            report.facts["faulty client"] = bad.act(fault=True)
            report.add("neighbour_of_fault_works", good.works())
        said = jobs.end(901)
        report.add("fault_in_the_record", any("ended the MPS server" in text for text in said))
        report.facts["record of the faulty job"] = said
    finally:
        jobs.end(901)
        jobs.end(902)


def _forced(here: Here, report: Report, jobs: MpsJobs) -> None:
    """A job ends while its client stays: the epilog's force."""
    env = jobs.start(911, HALF)
    with client(here, env):
        began = time.monotonic()
        jobs.end(911)
        report.add("end_by_force", time.monotonic() - began, "s")
        report.add("ended_by_force", not jobs.daemon(env).processes())
