"""`dlqueue serve`: the advisor that slurmctld asks."""

import argparse

HELP = "Run the advisor that slurmctld asks, until it is told to end; SIGHUP reads the settings."


def configure(_parser: argparse.ArgumentParser) -> None:
    """Nothing beyond the common options."""


def run(args: argparse.Namespace) -> int:
    """Serve; raises SettingsError, AdvisorError."""
    import logging
    import os
    from pathlib import Path

    from slurm_ext.advise.service import serve
    from slurm_ext.facts.settings import load

    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    config = args.config
    if config is None and "DLQUEUE_CONFIG" in os.environ:
        config = Path(os.environ["DLQUEUE_CONFIG"])
    serve(load(config), config)
    return 0
