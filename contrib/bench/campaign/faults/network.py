"""Cables that are pulled, loose, or thin."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from contrib.bench.campaign.cluster import Cluster
from contrib.bench.campaign.faults.fault import every, on_records


@contextmanager
def _cut(cluster: Cluster) -> Iterator[None]:
    for node in cluster.slurm.nodes:
        cluster.slurm.cut(node)
    yield
    for node in cluster.slurm.nodes:
        cluster.slurm.mend(node)


@contextmanager
def _loose(cluster: Cluster) -> Iterator[None]:
    """No packet passes in a fourth of the time."""
    slurm = cluster.slurm

    def turn(number: int) -> None:
        for node in slurm.nodes:
            slurm.cut(node) if number % 4 == 0 else slurm.mend(node)

    with every(0.25, turn):
        yield
    for node in slurm.nodes:
        slurm.mend(node)


@contextmanager
def _thin(cluster: Cluster) -> Iterator[None]:
    for namespace in _namespaces(cluster):
        _tc(namespace, "add", "tbf", "rate", "64kbit", "burst", "4kb", "latency", "400ms")
    yield
    for namespace in _namespaces(cluster):
        _tc(namespace, "del")


def _namespaces(cluster: Cluster) -> list[str]:
    return [str(node.namespace) for node in cluster.slurm.plan.nodes]


def _tc(namespace: str, verb: str, *words: str) -> None:
    command = ["tc", "-n", namespace, "qdisc", verb, "dev", "eth0", "root", *words]
    subprocess.run(command, check=True)


FAULTS = (
    on_records("network_cut", "every node is cut off", _cut),
    on_records("network_loose", "every cable is out for a fourth of the time", _loose),
    on_records("network_thin", "64 kbit/s from every node", _thin),
)
