"""Parsers of scontrol's one-line listings (`Name=Value Name=Value ...`)."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime

from slurm_ext.core.gpu_request import parse_gres
from slurm_ext.core.units import parse_minutes
from slurm_ext.slurm.hostlist import expand
from slurm_ext.slurm.records import NodeInfo, PartitionInfo, ReservationInfo, StartEstimate

_PAIR = re.compile(r"(?:^| )([A-Za-z][\w:/]*)=(\S*)")
_SETTING = re.compile(r"^(\w+) += (.*)$", re.MULTILINE)
_MEMORY = {
    "MaxMemPerCPU": "max_mem_per_cpu_mib",
    "MaxMemPerNode": "max_mem_per_node_mib",
    "DefMemPerCPU": "def_mem_per_cpu_mib",
    "DefMemPerNode": "def_mem_per_node_mib",
}
_NONE = frozenset({"", "(null)", "N/A", "NONE", "UNLIMITED", "INFINITE"})


def read_partitions(text: str, config: str) -> tuple[PartitionInfo, ...]:
    """Parse `scontrol --oneliner show partition`.

    `config` is `scontrol show config`: its memory limits hold for partitions without their own.
    """
    site = _memory_limits(dict(_SETTING.findall(config)))
    return tuple(_partition(row, site) for row in _rows(text, "PartitionName"))


def read_nodes(text: str) -> tuple[NodeInfo, ...]:
    """Parse `scontrol --oneliner show node`."""
    return tuple(_node(row) for row in _rows(text, "NodeName"))


def read_reservations(text: str) -> tuple[ReservationInfo, ...]:
    """Parse `scontrol --oneliner show reservation`; its times are local."""
    return tuple(
        ReservationInfo(
            name=row["ReservationName"],
            nodes=expand(_value(row, "Nodes")),
            start_s=datetime.fromisoformat(row["StartTime"]).timestamp(),
            end_s=datetime.fromisoformat(row["EndTime"]).timestamp(),
            flags=tuple(filter(None, _value(row, "Flags").split(","))),
        )
        for row in _rows(text, "ReservationName")
    )


def read_config(text: str) -> dict[str, str]:
    """Parse `scontrol show config`; keys without a value are left out."""
    pairs = (line.partition("=") for line in text.splitlines())
    config = {key.strip(): value.strip() for key, equals, value in pairs if equals}
    return {key: value for key, value in config.items() if value not in _NONE}


def keeps_cores(config: Mapping[str, str]) -> bool:
    """Return True if Slurm keeps each job on its own cores, by a cpuset or by affinity."""
    names = {name.strip().removeprefix("task/") for name in config.get("TaskPlugin", "").split(",")}
    return "affinity" in names or ("cgroup" in names and constrains_cores(config))


def constrains_cores(config: Mapping[str, str]) -> bool:
    """Return the word of cgroup.conf, which holds for task/cgroup alone."""
    return config.get("ConstrainCores", "no").lower() == "yes"


def read_gres(text: str) -> dict[str, int]:
    """Counts of a node's Gres=, by kind and by type: gpu:a100:2 is gpu 2 and gpu:a100 2."""
    counts: dict[str, int] = {}
    for item in parse_gres("" if text in _NONE else text):
        for key in {item.kind, f"{item.kind}:{item.type}".rstrip(":")}:
            counts[key] = counts.get(key, 0) + item.count
    return counts


def _partition(row: Mapping[str, str], site: Mapping[str, int]) -> PartitionInfo:
    own = _memory_limits(row)
    return PartitionInfo(
        name=row["PartitionName"],
        default=row["Default"] == "YES",
        nodes=_value(row, "Nodes"),
        qos=_value(row, "QoS"),
        max_time_minutes=parse_minutes(row["MaxTime"]),
        default_time_minutes=parse_minutes(_value(row, "DefaultTime") or "UNLIMITED"),
        max_cpus_per_node=_limit(row, "MaxCPUsPerNode"),
        max_cpus_per_socket=_limit(row, "MaxCPUsPerSocket"),
        billing=_value(row, "TRESBillingWeights"),
        job_defaults=_value(row, "JobDefaults"),
        exclusive=row.get("OverSubscribe", "").startswith("EXCLUSIVE"),
        state=row.get("State", "UP"),
        min_nodes=_limit(row, "MinNodes"),
        max_nodes=_limit(row, "MaxNodes"),
        allowed=_named(row, "Allow"),
        denied=_named(row, "Deny"),
        **_joined(site, own),
    )


def _named(row: Mapping[str, str], how: str) -> dict[str, tuple[str, ...]]:
    """Accounts and QOS that a partition allows or denies, where it names any."""
    texts = {ours: _value(row, f"{how}{ours.title()}") for ours in ("accounts", "qos")}
    return {ours: tuple(t.split(",")) for ours, t in texts.items() if t and t != "ALL"}


def _node(row: Mapping[str, str]) -> NodeInfo:
    return NodeInfo(
        name=row["NodeName"],
        cpus=int(_value(row, "CPUEfctv") or row["CPUTot"]),
        mem_mib=int(row["RealMemory"]) - int(_value(row, "MemSpecLimit") or 0),
        gres=read_gres(row["Gres"]),
        state=row["State"].rstrip("*~#!%$@^-"),
        partitions=tuple(row["Partitions"].split(",")) if "Partitions" in row else (),
        sockets=int(_value(row, "Sockets") or 1),
        features=tuple(filter(None, _value(row, "ActiveFeatures").split(","))),
        release=_value(row, "Version"),
    )


def _memory_limits(row: Mapping[str, str]) -> dict[str, int]:
    """Memory limits that are set, by the fields of PartitionInfo."""
    limits = {ours: _limit(row, theirs) for theirs, ours in _MEMORY.items()}
    return {ours: limit for ours, limit in limits.items() if limit is not None}


def _joined(site: Mapping[str, int], own: Mapping[str, int]) -> dict[str, int]:
    """Limits of a partition, with the site's where it has none of that kind (Max, Def)."""
    kinds = {name.partition("_")[0] for name in own}
    return {k: v for k, v in site.items() if k.partition("_")[0] not in kinds} | dict(own)


def _limit(row: Mapping[str, str], name: str) -> int | None:
    """A limit, memory in MiB; None where Slurm prints 0 or a word for no limit."""
    text = row.get(name, "")
    return None if text in _NONE else int(text) or None


def _value(row: Mapping[str, str], name: str) -> str:
    text = row.get(name, "")
    return "" if text in _NONE else text


def _rows(text: str, first: str) -> Iterator[dict[str, str]]:
    """Yield one mapping a line; other lines (`No nodes in the system`) are skipped.

    The first pair of a name counts, because free text, such as a node's Reason, comes last.
    """
    for line in text.splitlines():
        if line.startswith(f"{first}="):
            yield dict(reversed(_PAIR.findall(line)))


FAR_S = 365 * 86400  # longer than any queue: Slurm's infinity in minutes


_STARTS = re.compile(r"Job \d+ to start at (\S{1,20})(?: a)? using")  # 26.05 has the " a"


_ERRORS = re.compile(
    r"^(?:(?:allocation failure|sbatch: (?:error|fatal)): "
    r"|sbatch: (?=unrecognized option|invalid option|ambiguous option|option \S+ requires))(.*)$",
    re.MULTILINE,
)


# slurmctld is away, whatever the job asks for
_AWAY = re.compile(
    "unable to (contact|establish|open file)|timed out|connection|standby|zero bytes|munge"
    "|authentication|credential",
    re.IGNORECASE,
)


_CLAUSES = {
    "requested node configuration is not available": "no node has that many CPUs or GPUs, "
    "or that much memory",
    "invalid generic resource (gres) specification": "no node has such GPUs",
    "invalid partition name specified": "the partition does not exist",
}


MAX_CLAUSE = 120


def read_start(output: str, now_s: float) -> StartEstimate:
    """Start of an accepted job; of a heterogeneous one, its last component's."""
    times = _STARTS.findall(output)
    if not times or not all(text.isdecimal() for text in times):
        return StartEstimate(why="sbatch names no time")
    start_s = max(map(int, times))
    if start_s - now_s > FAR_S:
        return StartEstimate(why="a job before it has no time limit")
    return StartEstimate(start_s=start_s)


def read_refusal(output: str) -> StartEstimate | None:
    """Reason for which Slurm would refuse the job; None if slurmctld did not decide at all."""
    errors = [" ".join(text.split()).rstrip(".") for text in _ERRORS.findall(output)]
    if not errors or any(map(_AWAY.search, errors)):
        return None
    last = "".join(c for c in errors[-1] if c.isprintable())[:MAX_CLAUSE]
    return StartEstimate(refused=_CLAUSES.get(last.lower(), last[:1].lower() + last[1:]))
