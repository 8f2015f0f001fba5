"""Questions over the network to a real advisor with a real munged, and a crowd that asks."""

import multiprocessing
import os
import socket
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeAlias

from contrib.bench.common import synthetic_history
from contrib.bench.common.measure import timed
from slurm_ext.core.errors import DlqueueError
from slurm_ext.core.settings.document import load
from slurm_ext.core.wire import encode_request
from slurm_ext.questions.addresses import AdvisorAddresses
from slurm_ext.questions.client import ask
from tests.advisor.a_service import Service, until
from tests.munge import Munge

CROWD = 100  # users
FIRST_UID = 20_000
# A fork has all that it needs: other users may be unable to start this interpreter.
FORK = multiprocessing.get_context("fork")
Tallies: TypeAlias = "SimpleQueue[tuple[int, int]]"


@dataclass(frozen=True, slots=True)
class Site:
    """An advisor that is up, and the settings of a node without a history."""

    service: Service
    client: Path
    script: Path


@contextmanager
def site(folder: Path, runs: int) -> Iterator[Site]:
    """A history of so many runs, its advisor with a port for questions, and a munged."""
    (folder / "munge").mkdir(exist_ok=True)
    (folder / "advisor" / "state").mkdir(parents=True, exist_ok=True)
    synthetic_history.fill_up(folder / "advisor" / "state" / "history.db", runs)
    script = folder / "job.sh"
    script.write_text(synthetic_history.script(1))
    munge = Munge(folder / "munge")
    with socket.create_server(("127.0.0.1", 0)) as free:
        where = f"127.0.0.1:{free.getsockname()[1]}"
    signed = {"node__munge_socket": str(munge.socket)}
    service = Service(folder / "advisor", advisor__listen_questions=where, **signed)
    client = folder / "client.toml"
    client.write_text(
        f'[paths]\nstate_dir = "{folder}/none"\nslurm_bin = "{folder}"\n'
        f'[advisor]\naddress = "{where}"\n[node]\nmunge_socket = "{munge.socket}"\n'
    )
    try:
        service.start()
        until(lambda: _answers(client), "an answer over the network")
        yield Site(service, client, script)
    finally:
        service.stop()
        munge.stop()


def _answers(client: Path) -> bool:
    """True if the port is open; what a question imports is there for forks from then on."""
    try:
        return bool(ask(AdvisorAddresses(load(client)), "jobs", {"limit": 1}))
    except DlqueueError:
        return False


def commands(made: Site, repeats: int) -> dict[str, Any]:
    """Median and slowest seconds of each command, from its start to its exit, and of a Python."""
    words = {
        "jobs": ["--user", "user1"],
        "explain": ["1"],
        "predict": [str(made.script)],
    }
    every = {
        name: [sys.executable, "-m", "slurm_ext.cli", name, "--config", str(made.client), *more]
        for name, more in words.items()
    }
    every["bare python"] = [sys.executable, "-c", "pass"]
    spent = {name: [timed(argv).seconds for _ in range(repeats)] for name, argv in every.items()}
    return {
        name: {"median_s": round(statistics.median(each), 3), "most_s": round(max(each), 3)}
        for name, each in spent.items()
    }


def crowded(made: Site, submissions: int, seconds: float) -> dict[str, Any]:
    """p99 of a submission alone, beside CROWD users who ask, and alone again, in milliseconds."""
    alone = [_p99_ms(made.service, submissions)]
    addresses, tallies = AdvisorAddresses(load(made.client)), FORK.SimpleQueue()
    askers = [
        FORK.Process(target=_ask, args=(addresses, number, seconds, tallies))
        for number in range(CROWD)
    ]
    for asker in askers:
        asker.start()
    until, among = monotonic() + seconds, list[float]()
    while monotonic() < until:
        among += _submitted(made.service, 20)
    ended = [tallies.get() for _ in askers]
    for asker in askers:
        asker.join()
    alone.append(_p99_ms(made.service, submissions))
    return {
        "users": CROWD,
        "answered": sum(answered for answered, _ in ended),
        "refused": sum(refused for _, refused in ended),
        "submissions_beside": len(among),
        "p99_alone_ms": [round(one, 2) for one in alone],
        "p99_beside_ms": round(_p99(among), 2),
        "ratio": round(_p99(among) / max(alone), 2),
    }


def _ask(addresses: AdvisorAddresses, number: int, seconds: float, tallies: Tallies) -> None:
    """One user's `jobs`, once a second; niced, as it would be another machine's work.

    A user of its own where this is root: each has an allowance of questions.
    """
    os.nice(19)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setuid(FIRST_UID + number)
    until, counts = monotonic() + seconds, [0, 0]  # answered, refused
    while monotonic() < until:
        try:
            ask(addresses, "jobs", {"limit": 20})
            counts[0] += 1
        except DlqueueError:
            counts[1] += 1
        sleep(1)
    tallies.put((counts[0], counts[1]))


def _p99_ms(service: Service, count: int) -> float:
    return _p99(_submitted(service, count))


def _p99(each: list[float]) -> float:
    return sorted(each)[int(0.99 * len(each))]


def _submitted(service: Service, count: int) -> list[float]:
    """Milliseconds of submissions, each on a connection of its own, as slurmctld asks."""
    found = []
    for number in range(count):
        line = encode_request("submit", synthetic_history.submission(number))
        began = monotonic()
        service.say(line)
        found.append(1000 * (monotonic() - began))
    return found
