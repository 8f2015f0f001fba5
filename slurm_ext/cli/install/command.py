"""`dlqueue install`: dlqueue's files, and its lines in a site's own; undone exactly."""

import argparse

from slurm_ext.cli.install import run as install_run

HELP = (
    "Write dlqueue's files and join it to slurm.conf, its hooks and job_submit.lua. What is there"
    " is kept and backed up, a new job_submit.lua is tried before slurmctld can read it, and"
    " nothing is started: what to do next is printed. Once more changes nothing, or what changed."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    install_run.configure(parser)


def run(args: argparse.Namespace) -> int:
    """Install the steps that were named, beside those that are; raises InputError and its like."""
    return install_run.run(args, lambda installed, named: installed | named | {"files"})
