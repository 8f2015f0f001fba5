"""The table of node types that `dlqueue recommend --nodes FILE` chooses from.

[[node]]
name = "g5.12xlarge"
gpu = "a10g"              # its GPU's type, as Slurm or the driver names it
gpus = 4
cores = 48
price_per_hour = 5.67     # of one node, in any currency
mem_gib = 192             # this and the rest may be left out
disk_bytes_per_s = 1.5e9
net_bytes_per_s = 5e9
speed = 1.9               # of one GPU in a benchmark, in the same unit on every node
most_nodes = 8
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from slurm_ext.core.errors import InputError, SettingsError, unreadable
from slurm_ext.policy.node_shapes import NodeType

MOST_TYPES = 200
MOST_BYTES = 1 << 20
MOST_LINE = 1000  # a key of thousands of parts takes a parser minutes


@dataclass(frozen=True, slots=True)
class _Key:
    """One key: its field of NodeType, the least and most that it may be, and its unit."""

    field: str
    kind: type
    least: float = 0.0
    most: float = 1e18
    wanted: bool = False
    factor: float = 1.0

    @property
    def valid(self) -> str:
        if self.kind is str:
            return "a name of 1 to 64 printable characters"
        what = "a whole number" if self.kind is int else "a number"
        return f"{what} from {self.least:g} to {self.most:g}"


KEYS: Mapping[str, _Key] = {
    "name": _Key("name", str, wanted=True),
    "gpu": _Key("gpu", str, wanted=True),
    "gpus": _Key("gpus", int, 1, 1024, wanted=True),
    "cores": _Key("cores", int, 1, 65536, wanted=True),
    "price_per_hour": _Key("price_per_hour", float, 0, 1e9, wanted=True),
    "mem_gib": _Key("mem_bytes", float, 0.001, 1e9, factor=2.0**30),
    "disk_bytes_per_s": _Key("disk_bytes_per_s", float, 1),
    "net_bytes_per_s": _Key("net_bytes_per_s", float, 1),
    "speed": _Key("speed", float, 1e-9),
    "most_nodes": _Key("most_nodes", int, 1, 4096),
}


def read_table(path: Path) -> str:
    """Read and check a table's text. Raises InputError, and SettingsError naming a key."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(str(path), error) from None
    parse_table(text, str(path))
    return text


def parse_table(text: str, source: str) -> tuple[NodeType, ...]:
    """Parse a table. Raises InputError, and SettingsError naming the key and what is valid."""
    if len(text) > MOST_BYTES:
        raise InputError(source, f"is larger than {MOST_BYTES} bytes")
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > MOST_LINE:
            raise InputError(source, f"line {number} has more than {MOST_LINE} characters")
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(source, f"is not TOML: {error}") from None
    unknown = sorted(document.keys() - {"node"})
    if unknown:
        raise SettingsError(source, unknown[0], document[unknown[0]], "tables named [[node]] alone")
    tables = document.get("node")
    if not isinstance(tables, list) or not 0 < len(tables) <= MOST_TYPES:
        raise SettingsError(source, "node", tables, f"1 to {MOST_TYPES} tables named [[node]]")
    nodes = tuple(_node(source, f"node[{at}]", table) for at, table in enumerate(tables, 1))
    _check_names(source, nodes)
    return nodes


def _node(source: str, where: str, table: Any) -> NodeType:
    if not isinstance(table, dict):
        raise SettingsError(source, where, table, "a table named [[node]]")
    for name in table:
        if name not in KEYS:
            valid = f"one of the keys {', '.join(KEYS)}"
            raise SettingsError(source, f"{where}.{name}", table[name], valid)
    lacking = [name for name, key in KEYS.items() if key.wanted and name not in table]
    if lacking:
        valid = KEYS[lacking[0]].valid
        raise InputError(source, f"{where}.{lacking[0]} is missing: expected {valid}")
    values = {name: _value(source, f"{where}.{name}", name, table[name]) for name in table}
    return NodeType(**{KEYS[name].field: value for name, value in values.items()})


def _value(source: str, where: str, name: str, value: Any) -> Any:
    key = KEYS[name]
    if not _is_valid(key, value):
        raise SettingsError(source, where, value, key.valid)
    return value if key.kind is not float else float(value) * key.factor


def _is_valid(key: _Key, value: Any) -> bool:
    if key.kind is str:
        return isinstance(value, str) and value.isprintable() and 0 < len(value) <= 64
    if isinstance(value, bool) or not isinstance(value, int if key.kind is int else (int, float)):
        return False
    return isfinite(value) and key.least <= value <= key.most


def _check_names(source: str, nodes: tuple[NodeType, ...]) -> None:
    names = [node.name for node in nodes]
    for at, name in enumerate(names):
        if name in names[:at]:
            valid = "a name that no other node of the table has"
            raise SettingsError(source, f"node[{at + 1}].name", name, valid)
