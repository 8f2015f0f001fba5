"""Numbers of options within their bounds."""

import argparse
from math import isfinite

from slurm_ext.core.errors import UsageError
from slurm_ext.simulate.trace.vc_nodes import MOST as MOST_NODES

GPUS_PER_NODE = 8


def check(option: str, value: float | None, least: float, most: float) -> None:
    """Raise UsageError, naming the option and its bounds."""
    if value is not None and not (isfinite(value) and least <= value <= most):
        raise UsageError(f"{option} {value}: a number from {least} to {most} is wanted")


def check_cluster(args: argparse.Namespace) -> None:
    """Check the options that say how large the cluster is."""
    check("--gpus-per-node", args.gpus_per_node, 1, 10**6)
    check("--seed", args.seed, 0, 2**63)
    check("--nodes", args.nodes, 1, MOST_NODES)
