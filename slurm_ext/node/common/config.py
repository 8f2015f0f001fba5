"""node.json: the part of dlqueue.toml that hooks need, rendered by `core.settings.render`."""

from __future__ import annotations

import json

from slurm_ext.node.common.files import read_bounded

MAX_BYTES = 64 * 1024
_TYPES = {
    "site.cluster": str,
    "paths.kill_file": str,
    "paths.slurm_bin": str,
    "paths.slurm_conf": str,
    "node.spool_dir": str,
    "node.probe": bool,
    "node.sample_s": float,
    "node.prolog_budget_s": float,
    "node.epilog_budget_s": float,
    "node.spool_max_mib": int,
    "node.transport": str,
    "node.folder": str,
    "node.address": str,
    "node.munge_socket": str,
    "control.max_workers": int,
    "control.lends": bool,
    "mps.mode": str,
    "mps.control": str,
    "mps.jobs": str,
    "mps.most_percent": float,
    "mps.memory_share": float,
    "mps.drain_s": float,
}
_LATER: dict[str, object] = {  # a node.json of before has none of these
    "control.max_workers": 0,
    "control.lends": False,
    "mps.mode": "off",
    "mps.control": "/usr/bin/nvidia-cuda-mps-control",
    "mps.jobs": "mps",
    "mps.most_percent": 100.0,
    "mps.memory_share": 0.95,
    "mps.drain_s": 1.0,
}


class ConfigError(Exception):
    """node.json cannot be used; the hook reports it and does nothing."""


class NodeConfig:
    """The hooks' settings, by the last part of their name in dlqueue.toml, and as mps_*."""

    cluster: str
    kill_file: str
    slurm_bin: str
    slurm_conf: str
    spool_dir: str
    probe: bool
    sample_s: float
    prolog_budget_s: float
    epilog_budget_s: float
    spool_max_mib: int
    transport: str
    folder: str
    address: str
    munge_socket: str
    max_workers: int  # 0: no loop moves workers here
    lends: bool  # the node's loop lends idle cores to more workers
    mps_mode: str  # off or act
    mps_control: str
    mps_jobs: str  # mps or all
    mps_most_percent: float
    mps_memory_share: float
    mps_drain_s: float

    def __init__(self, values: dict[str, object]) -> None:
        for key, kind in _TYPES.items():
            value = values.get(key, _LATER.get(key))
            if kind is float and type(value) is int:
                value = float(value)
            if type(value) is not kind:
                raise ConfigError(f"{key} = {value!r} is not {kind.__name__}: render it again")
            name = key.replace(".", "_") if key.startswith("mps.") else key.partition(".")[2]
            setattr(self, name, value)


def load(path: str) -> NodeConfig:
    """The configuration in `path`. Raises ConfigError or OSError."""
    try:
        values = json.loads(read_bounded(path, MAX_BYTES).decode())
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not usable: {error}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path} is not a JSON object")
    return NodeConfig(values)
