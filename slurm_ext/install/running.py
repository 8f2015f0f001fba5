"""Reads the configuration of the running Slurm, and has it read its files again."""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from slurm_ext.core.errors import MissingError, SlurmError
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.settings.slurm_place import slurm_bin
from slurm_ext.install import slurm_conf
from slurm_ext.install.plan import InstallPlan

HOOKS = ("Prolog", "Epilog", "TaskProlog")
TIMEOUT_S = 60
_UNSET = "(null)"
_HOST = re.compile(r"\bNodeHostName=(\S+)")


def config(settings: Settings, conf: Path) -> Mapping[str, str] | None:
    """Return `scontrol show config` as key → value; None if no slurmctld answers."""
    try:
        output = _scontrol(settings, conf, "show", "config")
    except (SlurmError, MissingError):
        return None
    pairs = (line.partition("=") for line in output.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def named_in(running: Mapping[str, str] | None, folder: Path) -> frozenset[Path]:
    """Files below `folder` that Slurm's configuration names."""
    words = (word for value in (running or {}).values() for word in value.split(","))
    return frozenset(Path(word) for word in words if word.startswith(f"{folder}/"))


def reconfigure(settings: Settings, conf: Path, wanted: Mapping[str, str]) -> None:
    """Have Slurm read its files, and check the result. Raises SlurmError, MissingError."""
    _scontrol(settings, conf, "reconfigure")
    running = config(settings, conf)
    if running is None:
        raise SlurmError("scontrol show config", None, "no slurmctld answers after reconfigure")
    for key, value in wanted.items():
        values = {v for k, v in running.items() if k == key or k.startswith(f"{key}[")}
        values = values or {_UNSET}  # 23.11 and later leave out hooks that are not set
        if value not in values:
            why = f"{key} is {', '.join(sorted(values))}, not {value}"
            raise SlurmError("scontrol reconfigure", 0, why)


def nodes_read_it(settings: Settings, conf: Path) -> bool:
    """True if nodes surely read slurm.conf as slurmctld does: from it, or all on this machine."""
    parameters = (config(settings, conf) or {}).get("SlurmctldParameters", "")
    if "enable_configless" in parameters.lower().split(","):
        return True
    try:
        nodes = _scontrol(settings, conf, "show", "node")
    except (SlurmError, MissingError):
        return False
    here = socket.gethostname()
    hosts = set(_HOST.findall(nodes))
    return bool(hosts) and hosts <= {here, here.partition(".")[0], "localhost"}


def wanted_of(plan: InstallPlan) -> Mapping[str, str]:
    """Hooks of a plan's slurm.conf, as `scontrol show config` will print them."""
    hooks = {}
    for change in plan.real:
        if change.kind == "conf" and change.then is not None and change.now is not None:
            for key in HOOKS:
                before = slurm_conf.conf_values(change.now.text, key)
                after = slurm_conf.conf_values(change.then.text, key)
                if before or after:
                    hooks[key] = after[-1].value if after else _UNSET
    return hooks


def _scontrol(settings: Settings, conf: Path, *words: str) -> str:
    """Return scontrol's output. Raises SlurmError, MissingError."""
    program = shutil.which("scontrol", path=slurm_bin(settings) or None)
    if program is None:
        raise MissingError("there is no scontrol here", "set paths.slurm_bin to Slurm's commands")
    command = f"scontrol {' '.join(words)}"
    try:
        done = subprocess.run(
            [program, *words],
            env={**os.environ, "SLURM_CONF": str(conf)},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SlurmError(command, None, str(error)) from None
    if done.returncode:
        raise SlurmError(command, done.returncode, done.stderr or done.stdout)
    return done.stdout
