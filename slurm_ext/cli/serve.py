"""`dlqueue serve`: the advisor that slurmctld asks."""

import argparse

HELP = "Run the advisor that slurmctld asks, until it is stopped; SIGHUP reads the settings again."


def configure(_parser: argparse.ArgumentParser) -> None:
    """Nothing beyond the common options."""


def run(args: argparse.Namespace) -> int:
    """Serve; raises SettingsError, AdvisorError."""
    import os
    from pathlib import Path

    from slurm_ext.advisor.service.service import serve
    from slurm_ext.core.logs import set_up
    from slurm_ext.core.settings.document import load

    config = args.config
    if config is None and "DLQUEUE_CONFIG" in os.environ:
        config = Path(os.environ["DLQUEUE_CONFIG"])
    settings = load(config)
    set_up(settings["log.format"])
    serve(settings, config)
    return 0
