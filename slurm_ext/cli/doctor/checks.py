"""All that `doctor` looks at, in the order of installation."""

import shutil
import sys
from collections.abc import Iterator

from slurm_ext.cli.doctor.access import installed, permissions
from slurm_ext.cli.doctor.finding import OK, Check, Finding, present
from slurm_ext.cli.doctor.loops import loops
from slurm_ext.cli.doctor.mps import mps
from slurm_ext.cli.doctor.munge import questions
from slurm_ext.cli.doctor.node import node
from slurm_ext.cli.doctor.room import own_runs
from slurm_ext.cli.doctor.selinux import labels
from slurm_ext.cli.doctor.slurm import slurm
from slurm_ext.cli.doctor.speeds import speeds
from slurm_ext.cli.doctor.state import advisor, state
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.settings.slurm_place import slurm_bin, slurm_place

_COMMANDS = ("sbatch", "squeue", "scontrol", "sinfo")


def examine(settings: Settings) -> list[Finding]:
    """Every finding of every check."""
    return [finding for check in CHECKS for finding in check(settings)]


def python(_: Settings) -> Iterator[Finding]:
    """The interpreter and the optional libraries."""
    from importlib.util import find_spec

    yield Finding("python", OK, sys.version.split()[0])
    torch = "installed" if find_spec("torch") else None
    yield present("torch", torch, "`dlqueue train` needs: pip install dlqueue[train]")


def slurm_commands(settings: Settings) -> Iterator[Finding]:
    """The commands that the advisor and the epilog call."""
    place = slurm_place(settings)
    source = f", by {place.told_by}" if place and place.told_by != "PATH" else ""
    advice = "install Slurm's client commands, or set paths.slurm_bin"
    folder = slurm_bin(settings) or None
    paths = {name: shutil.which(name, path=folder) for name in _COMMANDS}
    if not any(paths.values()):
        advice = f"{advice}; `dlqueue run` needs none of them"
        yield present(" ".join(_COMMANDS), None, advice)
        return
    for name, path in paths.items():
        yield present(name, path and f"{path}{source}", advice)


CHECKS: tuple[Check, ...] = (
    python,
    own_runs,
    slurm_commands,
    installed,
    permissions,
    labels,
    slurm,
    state,
    advisor,
    questions,
    loops,
    speeds,
    node,
    mps,
)
