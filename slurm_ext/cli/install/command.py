"""`dlqueue install`: dlqueue's files, and its lines in a site's own; undone exactly."""

import argparse

from slurm_ext.cli.install import run as install_run

HELP = (
    "Write dlqueue's files and join it to slurm.conf, its hooks and job_submit.lua. What is there"
    " is kept and backed up, a new job_submit.lua is tried before slurmctld can read it, and"
    " nothing is started: what to do next is printed. Once more, it renews what is out of date."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    install_run.configure(parser, "None named: those that are installed, or all the first time")


def run(args: argparse.Namespace) -> int:
    """Install the steps that were named, beside those that are; raises InputError and its like."""
    install_run.run(args, _wanted)
    return 0


def _wanted(installed: frozenset[str], named: frozenset[str]) -> frozenset[str]:
    """A step that a site has not taken yet comes only by its name, or with all of them at first."""
    from slurm_ext.install.steps import NAMES

    return installed | named | {"files"} if installed or named else frozenset(NAMES)
