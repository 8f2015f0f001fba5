"""The one edge to Slurm: what the rest of dlqueue asks of a cluster, and who answers."""

from slurm_ext.cluster.chosen import open_client
from slurm_ext.cluster.client import SlurmClient
from slurm_ext.cluster.commands import CommandClient
from slurm_ext.cluster.memory import MemoryClient
from slurm_ext.cluster.records import (
    ENDED_STATES,
    Accounting,
    Allowance,
    Association,
    JobInfo,
    NodeInfo,
    PartitionInfo,
    Power,
    ReservationInfo,
    Shape,
    Start,
)

__all__ = [
    "ENDED_STATES",
    "Accounting",
    "Allowance",
    "Association",
    "CommandClient",
    "JobInfo",
    "MemoryClient",
    "NodeInfo",
    "PartitionInfo",
    "Power",
    "ReservationInfo",
    "Shape",
    "SlurmClient",
    "Start",
    "open_client",
]
