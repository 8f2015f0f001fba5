"""What SIGHUP does to a loop: its own settings are read again, where the file is sound."""

import logging
from collections.abc import Callable

from slurm_ext.core.errors import DlqueueError
from slurm_ext.core.settings.document import Settings


def read_again(
    settings: Settings, again: Callable[[], Settings], mine: tuple[str, ...], log: logging.Logger
) -> Settings:
    """Those that begin with one of `mine` as they are now, where the file is sound.

    All others, of paths and Slurm, change only by a restart.
    """
    try:
        new = again()
    except DlqueueError as error:
        log.warning("settings stay as they were: %s", error)
        return settings
    log.info("settings read again from %s", new.source)
    taken = {key: value for key, value in new.values.items() if key.startswith(mine)}
    others = {key: value for key, value in settings.values.items() if not key.startswith(mine)}
    return Settings(source=new.source, values={**others, **taken})
