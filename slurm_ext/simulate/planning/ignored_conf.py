"""Settings of a slurm.conf that change who starts, and that no replay has: an admin is to know.

A setting with the value that Slurm has without it is left out. Source: slurm.conf(5).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from slurm_ext.simulate.planning.slurm_conf import Pairs, global_values, read_lines

# Setting: values that change nothing.
_GLOBAL = {
    "FairShareDampeningFactor": ("1",),
    "JobRequeue": ("1",),
    "Licenses": ("",),
    "MaxJobCount": ("",),
    "OverTimeLimit": ("0",),
    "PreemptParameters": ("",),
    "PriorityFlags": ("", "none"),
    "PrioritySiteFactorPlugin": ("", "site_factor/none"),
    "SchedulerType": ("sched/backfill",),
    "SuspendTime": ("-1", "infinite", "none"),
    "TopologyPlugin": ("", "topology/none", "topology/default", "topology/flat"),
}
_PARTITION = {
    "AllowAccounts": ("", "all"),
    "AllowGroups": ("", "all"),
    "AllowQos": ("", "all"),
    "DenyAccounts": ("",),
    "DenyQos": ("",),
    "ExclusiveUser": ("no",),
    "LLN": ("no",),
    "MaxCPUsPerNode": ("unlimited",),
    "MinNodes": ("0", "1"),
    "OverSubscribe": ("no",),
    "OverTimeLimit": ("0",),
    "ReqResv": ("no",),
    "RootOnly": ("no",),
    "TRESBillingWeights": ("",),
}
_NODE = {"State": ("unknown", "idle", "cloud"), "Weight": ("1",)}
_LINES = {"partitionname": ("partition", _PARTITION), "nodename": ("node", _NODE)}


def ignored(path: Path) -> list[str]:
    """Each such setting with its value, and whose it is. Raises InputError."""
    return list(dict.fromkeys(_ignored(path)))


def _ignored(path: Path) -> Iterator[str]:
    yield from _set(global_values(path), _GLOBAL)
    for _, pairs in read_lines(path):
        for key, (noun, settings) in _LINES.items():
            if key in pairs:
                yield from (f"{text} of {noun} {pairs[key]}" for text in _set(pairs, settings))


def _set(values: Pairs, settings: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for name, neutral in settings.items():
        value = values.get(name.lower())
        if value is not None and value.lower() not in neutral:
            yield f"{name}={value}"
