"""The only edge to Slurm: clients for its commands, pyslurm and tests, and its records."""

from slurm_ext.slurm.choose import open_client
from slurm_ext.slurm.client import SlurmClient
from slurm_ext.slurm.commands import CommandClient
from slurm_ext.slurm.in_memory import MemoryClient
from slurm_ext.slurm.records import (
    ENDED_STATES,
    AccountedEnd,
    Accounting,
    Association,
    EnforcedLimits,
    JobAllowance,
    JobInfo,
    NodeInfo,
    PartitionInfo,
    PowerCommand,
    ReservationInfo,
    ResizeRequest,
    StartEstimate,
)

__all__ = [
    "ENDED_STATES",
    "AccountedEnd",
    "Accounting",
    "Association",
    "CommandClient",
    "EnforcedLimits",
    "JobAllowance",
    "JobInfo",
    "MemoryClient",
    "NodeInfo",
    "PartitionInfo",
    "PowerCommand",
    "ReservationInfo",
    "ResizeRequest",
    "SlurmClient",
    "StartEstimate",
    "open_client",
]
