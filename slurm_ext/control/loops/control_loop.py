"""The five control loops as the runner sees them: rounds, an undo, and what wakes them early."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from slurm_ext.control.loops.loop_state import LoopState
from slurm_ext.core.errors import DlqueueError
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm.client import SlurmClient


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """Reasons to begin the next round before it is due."""

    descriptors: Sequence[int] = ()  # readable: begin
    changed: Callable[[], bool] | None = None  # polled; True: begin


class ControlLoop(ABC):
    """One loop under one set of settings. It is made again when the settings are read again."""

    acts: bool  # True if it changes anything: its mode is act

    @abstractmethod
    def round(self) -> object:
        """Look, decide, in mode act apply, and write the status. May raise anything."""

    @abstractmethod
    def undo(self) -> int:
        """Put back all changes, those of a killed process too; returns how many.

        Raises SlurmError or OSError where some could not be put back.
        """

    def left(self) -> str:
        """Changes that the last undo could not put back yet, in a clause; empty: none.

        Where there are any, `undo` is to be called again.
        """
        return ""

    def close(self) -> None:  # noqa: B027 - most loops have all they need in their state
        """Let the next loop object take over; changes that it could not go on with are undone."""

    def events(self) -> AbstractContextManager[Events]:
        """Watch for what ends the wait for the next round early."""
        return nullcontext(Events())


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopKind:
    """One of the five loops for the runner: its settings, its state, and how it is made."""

    name: str  # for messages and the log: dlqueue.<name>
    mode: str  # setting: off, shadow or act
    interval: str  # setting: seconds between rounds
    prefix: str  # of the settings that SIGHUP reads again, beside paths.kill_file
    state: Callable[[Settings, bool], LoopState]  # the bool: it may write
    make: Callable[[Settings, SlurmClient, LoopState], ControlLoop]
    status_keys: tuple[str, ...]  # that `status` needs

    @property
    def log(self) -> logging.Logger:
        """Log of this loop."""
        return logging.getLogger(f"dlqueue.{self.name}")


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
