"""The faults, one module for each part that breaks."""

from contrib.bench.campaign.faults import (
    advisor,
    daemons,
    disks,
    epilogs,
    failover,
    history,
    hooks,
    hosts,
    migration,
    network,
    releases,
    sites,
    spool,
)
from contrib.bench.campaign.faults.fault import Fault

FAULTS: tuple[Fault, ...] = (
    *advisor.FAULTS,
    *history.FAULTS,
    *migration.FAULTS,
    *disks.FAULTS,
    *spool.FAULTS,
    *network.FAULTS,
    *daemons.FAULTS,
    *failover.FAULTS,
    *hooks.FAULTS,
    *epilogs.FAULTS,
    *hosts.FAULTS,
    *sites.FAULTS,
    *releases.FAULTS,
)
"""Every fault, in the order of the table; the first is none."""
