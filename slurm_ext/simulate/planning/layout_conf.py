"""The nodes and partitions of a site: NodeName and PartitionName lines of its slurm.conf.

GPUs are those of Gres; with `cpus`, a node's CPUs count instead (CPUs, or sockets x cores x
threads). Nodes without any are left out. Of a partition are read Nodes, Default, MaxTime, MaxNodes,
DefaultTime, QOS and State (one that is DOWN or INACTIVE starts nothing).
"""

from collections.abc import Iterator, Mapping
from math import inf, prod
from pathlib import Path

from slurm_ext.core.errors import InputError
from slurm_ext.core.gpu_request import parse_gres
from slurm_ext.simulate.planning.layout import Layout, PartitionNodes
from slurm_ext.simulate.planning.levels import set_of
from slurm_ext.simulate.planning.slurm_conf import Pairs, global_values, number, read_lines, seconds
from slurm_ext.slurm.hostlist import expand

UNLIMITED = ("infinite", "unlimited", "")
CLOSED = ("down", "inactive")
DEFAULTS = "default"  # a line of this name gives values to those after it
Kind = tuple[int, str]  # GPUs, and their model


def read_layout(path: Path, *, cpus: bool = False) -> Layout:
    """The nodes of a slurm.conf. Raises InputError, naming the file and the key."""
    kinds: dict[str, Kind] = {}
    lines = list(read_lines(path))
    for source, pairs in _named(lines, "nodename"):
        kind = (_cpus(pairs, source), "") if cpus else _gpus(pairs)
        kinds |= dict.fromkeys(_hosts(pairs["nodename"], source), kind)
    numbers = {name: number for number, name in enumerate(n for n in kinds if kinds[n][0])}
    if not numbers:
        raise InputError(str(path), f"no NodeName has {'CPUs' if cpus else 'Gres=gpu:N'}")
    partitions = {
        pairs["partitionname"]: (_partition(pairs, numbers, source), pairs)
        for source, pairs in _named(lines, "partitionname")
    }
    usual = [name for name, (_, pairs) in partitions.items() if _is(pairs, "default", "yes")]
    return Layout(
        sizes=[kinds[name][0] for name in numbers],
        types=[kinds[name][1] for name in numbers],
        partitions={name: nodes for name, (nodes, _) in partitions.items()},
        usual=(usual or [next(iter(partitions), "")])[-1],
        enforces=global_values(path).get("enforcepartlimits", "no").lower() != "no",
    )


def _named(
    lines: list[tuple[Path, dict[str, str]]], key: str
) -> Iterator[tuple[Path, dict[str, str]]]:
    """Lines of one kind, with the values that a line DEFAULT gave them."""
    usual: dict[str, str] = {}
    for source, pairs in lines:
        if pairs.get(key, "").lower() == DEFAULTS:
            usual |= pairs
        elif key in pairs:
            yield source, {**usual, **pairs}


def _partition(pairs: Pairs, numbers: Mapping[str, int], path: Path) -> PartitionNodes:
    names = pairs.get("nodes", "")
    every = names.upper() == "ALL"
    nodes = (
        0
        if _is(pairs, "state", *CLOSED)
        else set_of(
            numbers[name] for name in (numbers if every else _hosts(names, path)) if name in numbers
        )
    )
    most_nodes = pairs.get("maxnodes", "").lower() in UNLIMITED
    most_s = _time(pairs, "maxtime", inf, path)
    usual_s = _time(pairs, "defaulttime", most_s, path)
    return PartitionNodes(
        nodes=nodes,
        most_s=most_s,
        usual_s=min(usual_s, most_s),
        most_nodes=inf if most_nodes else number(pairs, "maxnodes", inf, path),
        qos=pairs.get("qos", ""),
    )


def _time(pairs: Pairs, key: str, usual: float, path: Path) -> float:
    """Seconds of a time limit; `usual` where none is said."""
    text = pairs.get(key, "").lower()
    if text in UNLIMITED:
        return inf if text else usual
    return seconds(pairs, key, usual, path)


def _gpus(pairs: Pairs) -> Kind:
    items = [item for item in parse_gres(pairs.get("gres")) if item.kind == "gpu"]
    types = {item.type for item in items}
    return sum(item.count for item in items), types.pop() if len(types) == 1 else ""


def _cpus(pairs: Pairs, path: Path) -> int:
    keys = ("sockets", "corespersocket", "threadspercore")
    counted = prod(int(number(pairs, key, 1.0, path)) for key in keys)
    return int(number(pairs, "cpus", float(counted), path))


def _hosts(text: str, path: Path) -> tuple[str, ...]:
    try:
        return expand(text)
    except ValueError as error:
        raise InputError(str(path), str(error)) from None


def _is(pairs: Pairs, key: str, *values: str) -> bool:
    return pairs.get(key, "").lower() in values
