"""Options of limits: files of sacctmgr, and what a slurm.conf says of how they are kept."""

import argparse
from collections.abc import Iterator
from dataclasses import replace

from slurm_ext.core.errors import UsageError
from slurm_ext.simulate.limits.association_file import read_associations
from slurm_ext.simulate.limits.limit import GROUP_MINUTES
from slurm_ext.simulate.limits.meters import Metering
from slurm_ext.simulate.limits.qos_file import read_qos
from slurm_ext.simulate.limits.site_limits import Limits
from slurm_ext.simulate.planning.slurm_conf import global_values
from slurm_ext.simulate.queue.cluster import Cluster
from slurm_ext.simulate.queue.priority_conf import read_priorities

KEY = "accountingstorageenforce"
ENFORCING, SAFE = {"limits", "safe", "all"}, {"safe", "all"}
RESET = "PriorityUsageResetPeriod"


def limits_of(args: argparse.Namespace, cluster: Cluster) -> Limits | None:
    """The limits of --qos and --associations. Raises UsageError and InputError."""
    if args.qos is None and args.associations is None:
        return None
    if cluster.vcs:
        option = "--associations" if args.qos is None else "--qos"
        raise UsageError(
            f"{option}: its limits are of one cluster: --nodes, or --slurm-conf's nodes"
        )
    table = None if args.qos is None else read_qos(args.qos)
    associations = None if args.associations is None else read_associations(args.associations)
    if table is not None and associations is not None:
        table = replace(table, usual={**associations.usual_qos, **table.usual})
    return Limits(
        table=table,
        of_partition={} if table is None else _qos_of_partitions(cluster),
        associations=associations,
        metering=_metering(args),
        cpus=args.count == "cpus",
    )


def not_enforced(args: argparse.Namespace) -> Iterator[str]:
    """Notes where the site's Slurm keeps limits in another way than the replay."""
    if args.slurm_conf is None:
        return
    values = global_values(args.slurm_conf)
    if not ENFORCING & _enforced(args):
        words = values.get(KEY, "none")
        which = "--qos" if args.associations is None else "--qos and --associations"
        yield f"AccountingStorageEnforce={words}: Slurm itself would not keep the limits of {which}"
    if values.get(RESET.lower(), "none").lower() != "none":
        yield f"{RESET}: {GROUP_MINUTES} of a replay are never reset"


def _enforced(args: argparse.Namespace) -> set[str]:
    text = global_values(args.slurm_conf).get(KEY, "none").lower()
    return {word.strip() for word in text.split(",")}


def _metering(args: argparse.Namespace) -> Metering:
    if args.slurm_conf is None:
        return Metering()
    conf = read_priorities(args.slurm_conf)
    safe = bool(SAFE & _enforced(args))
    return Metering(half_life_s=conf.half_life_s, period_s=conf.period_s, safe=safe)


def _qos_of_partitions(cluster: Cluster) -> dict[str, str]:
    """The QOS of the partitions that have one; an empty name: of jobs that name none."""
    if cluster.layout is None:
        return {}
    named = {
        name: partition.qos
        for name, partition in cluster.layout.partitions.items()
        if partition.qos
    }
    if cluster.layout.usual in named:
        named[""] = named[cluster.layout.usual]
    return named
