"""The advisor is dead, hung, slow, or says what it must not."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from contrib.bench.campaign.cluster import Cluster
from contrib.bench.campaign.faults.fault import Break, Fault, every, killed, nothing, on_submissions
from tests.fake_advisor import (
    Behaviour,
    FakeAdvisor,
    cpus,
    drips,
    floods,
    half,
    hangs,
    hangs_up,
    reply,
    says,
)

CHANGE = reply(cpus(4))


@contextmanager
def _hung(cluster: Cluster) -> Iterator[None]:
    os.kill(cluster.pid("advisor"), signal.SIGSTOP)
    yield
    os.kill(cluster.pid("advisor"), signal.SIGCONT)


@contextmanager
def _stutters(cluster: Cluster) -> Iterator[None]:
    """The advisor is stopped for half of the time, 100 ms each."""
    pid = cluster.pid("advisor")
    with every(0.1, lambda n: os.kill(pid, signal.SIGCONT if n % 2 else signal.SIGSTOP)):
        yield
    os.kill(pid, signal.SIGCONT)


@contextmanager
def _flaps(cluster: Cluster) -> Iterator[None]:
    """The advisor is killed and started again and again."""

    def turn(_: int) -> None:
        cluster.slurm.stop("advisor", signal.SIGKILL)
        cluster.slurm.start("advisor")

    with every(1.0, turn):
        yield


def impostor(behaviour: Behaviour) -> Break:
    """Another program answers at the advisor's socket, as `behaviour` has it."""

    @contextmanager
    def broken(cluster: Cluster) -> Iterator[None]:
        path = cluster.socket
        aside = path.with_name("aside.submit")
        path.rename(aside)
        with FakeAdvisor(path, behaviour):
            cluster.reload_plugin()
            yield
        aside.rename(path)
        cluster.reload_plugin()

    return broken


@contextmanager
def advisor_with(cluster: Cluster, cwd: Path = Path("/"), **variables: str) -> Iterator[None]:
    """The advisor runs with these variables, in `cwd`, and is the sandbox's again in the end."""
    slurm = cluster.slurm
    slurm.stop("advisor")
    serve = [sys.executable, "-m", "slurm_ext.cli", "serve", "--config", str(slurm.layout.settings)]
    env = {**slurm.env, **variables}
    with slurm.path("log/advisor.log").open("ab") as log:
        advisor = subprocess.Popen(serve, env=env, cwd=cwd, stdout=log, stderr=log)
    try:
        yield
    finally:
        advisor.terminate()
        advisor.wait()
        slurm.start("advisor")


def _limited(option: str) -> Break:
    def broken(cluster: Cluster) -> AbstractContextManager[None]:
        return _with_limit(cluster, option)

    return broken


@contextmanager
def _with_limit(cluster: Cluster, option: str) -> Iterator[None]:
    """The advisor may have no more than it has now."""
    pid = cluster.pid("advisor")
    have = {
        "nofile": len(os.listdir(f"/proc/{pid}/fd")),  # noqa: PTH208 - a count
        "as": int(open(f"/proc/{pid}/statm").read().split()[0]) * 4096,  # noqa: SIM115, PTH123
    }[option]
    cluster.slurm.run(["prlimit", f"--pid={pid}", f"--{option}={have}:{have}"])
    yield
    cluster.slurm.stop("advisor")
    cluster.slurm.start("advisor")


_LIES = reply(cpus(60_000, DLQUEUE_NUM_WORKERS="9999"), "dlqueue: cpus-per-task 1 -> 60000")
_NUMBER_AS_TEXT = CHANGE.replace(b'"cpus_per_task": 4', b'"cpus_per_task": "4"')
_OTHER_VERSION = CHANGE.replace(b'"v": 1', b'"v": 2')
_OFF_THE_LIST = reply({**cpus(4), "extra": "x"})
_ANSWERS: tuple[tuple[str, str, Behaviour], ...] = (
    ("advisor_drips", "a byte of the answer every 20 ms", drips(CHANGE)),
    ("advisor_silent", "questions are taken and never answered", hangs),
    ("advisor_hangs_up", "each connection is closed", hangs_up),
    ("advisor_garbles", "bytes that are no JSON", says(b"\x1b[2J\xff\x00 {\n")),
    ("advisor_half", "half an answer", half(CHANGE)),
    ("advisor_floods", "100 MB without an end", floods),
    ("advisor_lies", "60,000 CPUs and 9,999 workers for everybody", says(_LIES)),
    ("advisor_wrong_types", "a number as text", says(_NUMBER_AS_TEXT)),
    ("advisor_other_version", "answers of another version", says(_OTHER_VERSION)),
    ("advisor_off_the_list", "a field that crashes slurmctld", says(_OFF_THE_LIST)),
)
FAULTS = (
    Fault("none", "no fault: what this machine does by itself", nothing),
    on_submissions("advisor_dead", "the advisor is killed", killed("advisor")),
    on_submissions("advisor_hung", "the advisor is stopped and never answers", _hung),
    on_submissions("advisor_stutters", "the advisor is stopped for half of the time", _stutters),
    on_submissions("advisor_flaps", "the advisor is killed and started every second", _flaps),
    *(on_submissions(name, what, impostor(answer)) for name, what, answer in _ANSWERS),
    on_submissions("advisor_out_of_memory", "the advisor gets no more memory", _limited("as")),
    on_submissions(
        "advisor_out_of_descriptors", "the advisor gets no more descriptors", _limited("nofile")
    ),
)
