"""The advisor is dead, hung, slow, or says what it must not."""

import os
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from contrib.bench.campaign.cluster import Cluster
from contrib.bench.campaign.faults.fault import Break, Fault, Hurts, every, nothing
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
def _dead(cluster: Cluster) -> Iterator[None]:
    cluster.slurm.stop("advisor", signal.SIGKILL)
    yield
    cluster.slurm.start("advisor")


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


def _fault(name: str, what: str, broken: Break) -> Fault:
    return Fault(name=name, what=what, broken=broken, hurts=Hurts.SUBMISSIONS)


_LIES = reply(cpus(60_000, DLQUEUE_NUM_WORKERS="9999"), "dlqueue: cpus-per-task 1 -> 60000")
FAULTS = (
    Fault(name="none", what="no fault: what this machine does by itself", broken=nothing),
    _fault("advisor_dead", "the advisor is killed", _dead),
    _fault("advisor_hung", "the advisor is stopped and never answers", _hung),
    _fault("advisor_stutters", "the advisor is stopped for half of the time", _stutters),
    _fault("advisor_flaps", "the advisor is killed and started every second", _flaps),
    _fault("advisor_drips", "a byte of the answer every 20 ms", impostor(drips(CHANGE))),
    _fault("advisor_silent", "questions are taken and never answered", impostor(hangs)),
    _fault("advisor_hangs_up", "each connection is closed", impostor(hangs_up)),
    _fault("advisor_garbles", "bytes that are no JSON", impostor(says(b"\x1b[2J\xff\x00 {\n"))),
    _fault("advisor_half", "half an answer", impostor(half(CHANGE))),
    _fault("advisor_floods", "100 MB without an end", impostor(floods)),
    _fault("advisor_lies", "60,000 CPUs and 9,999 workers for everybody", impostor(says(_LIES))),
    _fault(
        "advisor_wrong_types",
        "a number as text",
        impostor(says(CHANGE.replace(b'"cpus_per_task": 4', b'"cpus_per_task": "4"'))),
    ),
    _fault(
        "advisor_other_version",
        "answers of another version",
        impostor(says(CHANGE.replace(b'"v": 1', b'"v": 2'))),
    ),
    _fault(
        "advisor_off_the_list",
        "a field that crashes slurmctld",
        impostor(says(reply({**cpus(4), "extra": "x"}))),
    ),
    _fault("advisor_out_of_memory", "the advisor gets no more memory", _limited("as")),
    _fault(
        "advisor_out_of_descriptors", "the advisor gets no more descriptors", _limited("nofile")
    ),
)
