"""slurmctld moves to another host and back, and the advisor follows it."""

from collections.abc import Iterator
from contextlib import contextmanager

from contrib.bench.campaign.cluster import Cluster
from contrib.bench.campaign.faults.fault import Fault, every
from slurm_ext.sandbox import control


@contextmanager
def _failed_over(cluster: Cluster) -> Iterator[None]:
    """The second slurmctld takes over; the first comes back in the end, its advisor with it."""
    slurm = cluster.slurm

    def again(_: int) -> None:
        if slurm.status()["daemons"]["advisor"] is None:  # it made room; systemd starts it again
            control.ask(slurm.layout, "start", name="advisor")

    slurm.run(["scontrol", "takeover"], timeout_s=150)
    with every(1.0, again):
        yield
        slurm.restart("slurmctld")
        slurm.until(slurm.path("run/advisor.sock.submit").exists, "the advisor does not wait")


FAULTS = (
    Fault(
        "failed_over",
        "slurmctld fails over to another host, and back",
        _failed_over,
        no_slurm=True,
        needs={"backup": True},
        settings={"node.transport": "folder"},
    ),
)
