"""The command line as argparse knows it: one command, or all of them for completion and manuals.

A command with `run_plain(words)` may do without: argparse takes as long to import as Python itself.
"""

from __future__ import annotations

import importlib

from slurm_ext.cli.common.commands import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from types import ModuleType

PACKAGES = {
    command: f"slurm_ext.cli.{command}.command"
    for command in (
        "control",
        "demo",
        "doctor",
        "explain",
        "history",
        "install",
        "jobs",
        "predict",
        "profile",
        "recommend",
        "report",
        "run",
        "sandbox",
        "simulate",
    )
} | {"uninstall": "slurm_ext.cli.install.uninstall"}
ABOUT = "Right-sizes deep-learning jobs on Slurm from what earlier jobs measured."


def module_of(command: str) -> ModuleType:
    """The module with the command's HELP, configure and run."""
    package = PACKAGES.get(command, f"slurm_ext.cli.{command}")
    return importlib.import_module(package)


def parser_of(command: str, module: ModuleType) -> argparse.ArgumentParser:
    """The parser of one command, named as people type it."""
    import argparse

    parser = argparse.ArgumentParser(prog=f"dlqueue {command}", description=module.HELP)
    return _furnished(parser, module)


def whole() -> argparse.ArgumentParser:
    """One parser with every command below it; imports all of them."""
    import argparse

    parser = argparse.ArgumentParser(prog="dlqueue", description=ABOUT)
    parser.add_argument("--version", action="store_true", help="print the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        _furnished(commands.add_parser(name, help=summary, description=summary), module_of(name))
    return parser


def _furnished(parser: argparse.ArgumentParser, module: ModuleType) -> argparse.ArgumentParser:
    from pathlib import Path

    parser.add_argument("--json", action="store_true", help="print one JSON document instead")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings file to use")
    module.configure(parser)
    return parser
