"""Nodes that never sleep: those of the settings, and those of slurm.conf. Pure.

An order to power down passes by SuspendExcNodes, SuspendExcParts and SuspendExcStates: Slurm keeps
them only where it suspends by itself, so the loop has to.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from slurm_ext.control.energy.nodes import EVERY, states
from slurm_ext.slurm.hostlist import expand
from slurm_ext.slurm.records import NodeInfo

BY_SETTINGS = "excluded by the settings"
_COUNT = re.compile(r":\d+(?=,|$)")  # n[1-9]:4 keeps four of them up: here, all of them


def excluded(
    nodes: Sequence[NodeInfo], exclude: Iterable[str], config: Mapping[str, str]
) -> dict[str, str]:
    """Name them, with the reason. Raises ValueError on a list that does not say which nodes."""
    own = tuple(_settings(nodes, exclude))
    named = _named(config.get("SuspendExcNodes", ""))
    if unknown := sorted({*named} - {node.name for node in nodes}):
        raise ValueError(f"SuspendExcNodes of slurm.conf names {unknown[0]}, which is no node")
    parts, flags = (_words(config.get(key, "")) for key in ("SuspendExcParts", "SuspendExcStates"))
    why = {n.name: "of SuspendExcStates" for n in nodes if flags & states(n)}
    why |= {n.name: "of SuspendExcParts" for n in nodes if parts.intersection(n.partitions)}
    why |= dict.fromkeys(named, "of SuspendExcNodes")
    return why | dict.fromkeys(own, BY_SETTINGS)


def unknown_of(nodes: Iterable[NodeInfo], exclude: Iterable[str]) -> list[str]:
    """List what the settings exclude and Slurm does not know: a typing error, or a node that left.

    Raises ValueError as `excluded` does.
    """
    known = {node.name for node in nodes}
    return sorted({*_settings((), exclude)} - known)


def _settings(nodes: Iterable[NodeInfo], exclude: Iterable[str]) -> Iterator[str]:
    for text in exclude:
        if text == EVERY:
            yield from (node.name for node in nodes)
            continue
        try:
            yield from expand(text)
        except ValueError as err:
            raise ValueError(f"energy.exclude: {err}") from err


def _named(text: str) -> tuple[str, ...]:
    try:
        return expand(_COUNT.sub("", text))
    except ValueError as err:
        raise ValueError(f"SuspendExcNodes of slurm.conf: {err}") from err


def _words(text: str) -> frozenset[str]:
    return frozenset(_COUNT.sub("", text).split(",")) - {"", "(null)"}
