"""`dlqueue serve`: the advisor that slurmctld asks."""

import argparse

HELP = "Run the advisor that slurmctld asks, until it is stopped; SIGHUP reads the settings again."


def configure(_parser: argparse.ArgumentParser) -> None:
    """Nothing beyond the common options."""


def run(args: argparse.Namespace) -> int:
    """Serve; raises SettingsError, AdvisorError."""
    import os

    from slurm_ext.advisor.service.service import serve
    from slurm_ext.core.errors import AdvisorError
    from slurm_ext.core.logs import set_up
    from slurm_ext.core.settings.document import load, named_by_environment

    config = args.config or named_by_environment()
    settings = load(config)
    set_up(settings["log.format"])
    try:
        serve(settings, config)
    except AdvisorError as error:
        if os.geteuid() == 0 or os.access(settings.state_dir, os.W_OK):
            raise
        how = "a site's advisor is root's to start; `dlqueue run` needs none"
        raise AdvisorError(f"{error}; {how}") from None
    return 0
