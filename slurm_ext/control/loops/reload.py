"""SIGHUP: a loop's own settings are read again, where the file is sound."""

from collections.abc import Callable

from slurm_ext.control.loops.control_loop import LoopKind
from slurm_ext.core.errors import DlqueueError
from slurm_ext.core.settings.document import Settings


def reload_settings(settings: Settings, load: Callable[[], Settings], kind: LoopKind) -> Settings:
    """Return the settings with those of the loop, and paths.kill_file, as `load` reads them.

    All others, of paths and Slurm, change only by a restart. Unsound settings change nothing.
    """
    try:
        new = load()
    except DlqueueError as error:
        kind.log.warning("settings stay as they were: %s", error)
        return settings
    kind.log.info("settings read again from %s", new.source)
    own = (kind.prefix, "paths.kill_file")
    changed = {key: value for key, value in new.values.items() if key.startswith(own)}
    others = {key: value for key, value in settings.values.items() if not key.startswith(own)}
    return Settings(source=new.source, values={**others, **changed})
