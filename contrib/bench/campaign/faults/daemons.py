"""Slurm's own daemons, and munge, end, start again or are gone."""

import secrets
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from contrib.bench.campaign.cluster import Cluster
from contrib.bench.campaign.faults.fault import Break, Fault, every, killed, on_records
from slurm_ext.core.errors import SandboxError


@contextmanager
def _munge_down(cluster: Cluster) -> Iterator[None]:
    cluster.slurm.stop("munged")
    yield
    cluster.slurm.start("munged")


@contextmanager
def _key_rotated(cluster: Cluster) -> Iterator[None]:
    """The key changes every 4 s: credentials by the old one are invalid."""
    key = cluster.slurm.path("etc/munge.key")

    def turn(_: int) -> None:
        cluster.slurm.stop("munged")
        key.chmod(0o600)
        key.write_bytes(secrets.token_bytes(64))
        key.chmod(0o400)
        cluster.slurm.start("munged")

    with every(4.0, turn):
        yield


def _ended(number: signal.Signals, *, which: str) -> Break:
    """The daemons are ended by a signal every few seconds, and started again."""

    @contextmanager
    def broken(cluster: Cluster) -> Iterator[None]:
        slurm = cluster.slurm

        def turn(_: int) -> None:
            for name in slurm.nodes if which == "slurmd" else (which,):
                slurm.stop(name, number)
            for name in slurm.nodes if which == "slurmd" else (which,):
                slurm.start(name)

        with every(4.0, turn):
            yield

    return broken


@contextmanager
def _power_cut(cluster: Cluster) -> Iterator[None]:
    """Two nodes lose their power and are booted at once."""
    _boot(cluster, cut_s=0.0)
    yield


@contextmanager
def _gone(cluster: Cluster) -> Iterator[None]:
    """Two nodes lose their power, and Slurm gives up on them before they are back."""
    for node in cluster.slurm.nodes[:2]:
        cluster.slurm.kill_node(node)
    yield
    time.sleep(25)  # SlurmdTimeout is 20 s
    for node in cluster.slurm.nodes[:2]:
        cluster.slurm.start(node)


def _boot(cluster: Cluster, cut_s: float) -> None:
    for node in cluster.slurm.nodes[:2]:
        cluster.slurm.kill_node(node)
    time.sleep(cut_s)
    for node in cluster.slurm.nodes[:2]:
        with suppress(SandboxError):
            cluster.slurm.start(node)


@contextmanager
def _no_slurmdbd(cluster: Cluster) -> Iterator[None]:
    """From before the first job until the fault is healed."""
    cluster.slurm.stop("slurmdbd")
    yield


@contextmanager
def _slurmdbd_comes(cluster: Cluster) -> Iterator[None]:
    yield
    cluster.slurm.start("slurmdbd")


_TERM, _KILL = signal.SIGTERM, signal.SIGKILL
_no_slurm = partial(Fault, no_slurm=True)
FAULTS = (
    _no_slurm("munge_down", "munged is gone", _munge_down, shells=16),
    _no_slurm("munge_rotated", "munge's key changes", _key_rotated),
    _no_slurm(
        "slurmctld_restarted", "slurmctld is restarted every 4 s", _ended(_TERM, which="slurmctld")
    ),
    _no_slurm(
        "slurmctld_killed", "slurmctld is killed every 4 s", _ended(_KILL, which="slurmctld")
    ),
    on_records(
        "slurmd_restarted", "every slurmd is restarted every 4 s", _ended(_TERM, which="slurmd")
    ),
    on_records("slurmd_killed", "every slurmd is killed every 4 s", _ended(_KILL, which="slurmd")),
    on_records("nodes_rebooted", "two nodes lose their power and are booted", _power_cut),
    on_records("nodes_gone", "two nodes are gone until Slurm gives up on them", _gone),
    Fault("slurmdbd_gone", "slurmdbd is killed", killed("slurmdbd")),
    Fault(
        "slurmdbd_never_there",
        "slurmdbd is away before the first job, and comes after the fault",
        _slurmdbd_comes,
        prepared=_no_slurmdbd,
    ),
)
