"""The one process that writes history.db, a child of `dlqueue serve`.

Every round: the journal into the ledger, then the spool into the history (so that runs find their
proposals), then what cluster loops did, and now and then a comparison with Slurm, retention, and a
retraining. Killed anywhere, it goes on where the last transaction ended.
"""

import logging
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from slurm_ext.advisor.history_writer.accounted_ends import ASK_EVERY_S, AccountedEnds
from slurm_ext.advisor.history_writer.receive import Receiver, start_receiver
from slurm_ext.advisor.history_writer.reconcile import Reconciler
from slurm_ext.advisor.history_writer.retrain import Retrainer
from slurm_ext.advisor.limits.rules import client_of
from slurm_ext.advisor.pipeline.journal import journals
from slurm_ext.core.errors import DlqueueError, HistoryError
from slurm_ext.core.logs import set_up
from slurm_ext.core.settings.document import Settings, load, reloaded
from slurm_ext.history.ingest.actions import action_files, record_actions
from slurm_ext.history.ingest.journal import delete_if_recorded, record_journal
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.retention import forget
from slurm_ext.history.store.store import History, open_history

ROUND_S = 0.5
NICE = 5
RETENTION_EVERY_S = 6 * 3600.0
DAY_S = 86400.0
log = logging.getLogger("dlqueue.history_writer")


@dataclass(slots=True)
class PeriodicTask:
    """Something to do every so often; a failure is said once and tried again."""

    name: str
    every_s: float
    act: Callable[[History, float], None]
    due_s: float = 0.0
    said: str = field(default="", repr=False)

    def do(self, history: History, clock_s: float) -> bool:
        """Act if it is time; False if the history itself failed."""
        if clock_s < self.due_s:
            return True
        self.due_s = clock_s + self.every_s
        try:
            self.act(history, time.time())
        except (DlqueueError, OSError) as error:
            self._say(str(error), fault=False)
            # Only what SQLite raised has a cause: a spool that cannot be listed is not the history.
            return not isinstance(error, HistoryError) or error.__cause__ is None
        except Exception as error:  # a fault of ours in one task must not stop the others
            self._say(repr(error), fault=True)
        else:
            self.said = ""
        return True

    def _say(self, what: str, *, fault: bool) -> None:
        if what != self.said:
            log.warning("%s: %s", self.name, what, exc_info=fault)
        self.said = what


class HistoryWriter:
    """All periodic tasks over one open history."""

    def __init__(self, settings: Settings, config: Path | None) -> None:
        self._settings, self._config = settings, config
        self._retrainer = Retrainer(settings, config)
        self._tasks = self._make_tasks()

    def _make_tasks(self) -> tuple[PeriodicTask, ...]:
        settings = self._settings
        reconciler = Reconciler(settings, catch_up=self.take_journals)
        return (
            PeriodicTask("journal", 0.0, self.take_journals),
            PeriodicTask("spool", 0.0, self.take_spool),
            PeriodicTask("moves", 0.0, self.take_moves),
            PeriodicTask("reconcile", settings["advisor.reconcile_s"], reconciler.reconcile),
            PeriodicTask("ends", ASK_EVERY_S, AccountedEnds(client_of(settings)).ask),
            PeriodicTask("retention", RETENTION_EVERY_S, self.forget_old),
            PeriodicTask("retraining", 0.0, self._retrainer.look),
        )

    def round(self, history: History) -> None:
        """Run every task whose time has come, until the history fails one.

        A damaged file may still take a record, which is lost with it: records wait instead.
        """
        for task in self._tasks:
            if not task.do(history, time.monotonic()):
                return

    def reload_settings(self) -> Settings:
        """Go on with the settings as the file has them now. Raises SettingsError, InputError."""
        self._settings, _ = reloaded(self._config, self._settings)
        self._retrainer.after = self._settings["advisor.retrain_after"]
        self._tasks = self._make_tasks()
        return self._settings

    def begin_anew(self) -> None:
        """Forget what tasks know of the file before, and compare this one with Slurm at once."""
        self._tasks = self._make_tasks()

    def stop(self) -> None:
        """Leave no child behind."""
        self._retrainer.stop()

    def take_journals(self, history: History, now_s: float) -> None:
        """Enter what the server appended; delete the journals that it has left behind."""
        files = journals(self._settings.state_dir / "journal")
        for path in files:
            record_journal(history, path, now_s=now_s, rest=path != files[-1])
        for path in files[:-1]:
            delete_if_recorded(history, path)

    def take_spool(self, history: History, now_s: float) -> None:
        """Enter the records that came by folder or stream."""
        report = ingest_folder(history, self._settings.state_dir / "spool", now_s=now_s)
        self._retrainer.outcomes += report.taken + report.replaced
        if report.quarantined:
            log.warning("%d records cannot be read and were set aside", report.quarantined)

    def take_moves(self, history: History, now_s: float) -> None:
        """Enter what cluster loops wrote of their moves; one's unreadable file hides no other's."""
        failed: OSError | None = None
        for path in action_files(self._settings.state_dir / "moves"):
            try:
                report = record_actions(history, path, now_s=now_s)
            except OSError as error:
                failed = error
                continue
            if report.bad_lines:
                log.warning("%s: %d lines are no moves; noted", path, report.bad_lines)
        if failed is not None:
            raise failed

    def forget_old(self, history: History, now_s: float) -> None:
        """Drop runs beyond the retention."""
        forget(history, now_s - self._settings["history.retention_days"] * DAY_S)


def keep(settings: Settings, config: Path | None) -> None:
    """Work until standard input ends, as it does with the server."""
    receiver = start_receiver(settings)
    writer = HistoryWriter(settings, config)
    parent = ParentPipe(partial(_reload, writer, receiver))
    try:
        while _serves(writer, settings, parent):
            log.warning("the history was replaced and is opened anew")
            writer.begin_anew()
    finally:
        writer.stop()
        if receiver is not None:
            receiver.shutdown()


class ParentPipe:
    """Our standard input, whose other end the server holds: a byte, or the server's end."""

    def __init__(self, reload_settings: Callable[[], None]) -> None:
        self._reload_settings = reload_settings

    def ended(self, wait_s: float) -> bool:
        """True if the server has gone; waits for `wait_s` at most and obeys meanwhile."""
        readable, _, _ = select.select([sys.stdin], [], [], wait_s)
        if not readable:
            return False
        data = os.read(sys.stdin.fileno(), 64)
        if data:
            self._reload_settings()
        return not data


def _reload(writer: HistoryWriter, receiver: Receiver | None) -> None:
    """New settings where they are sound; the server logs which need a restart."""
    try:
        settings = writer.reload_settings()
    except DlqueueError as error:
        log.warning("settings stay as they were: %s", error)
        return
    if receiver is not None:
        receiver.take(settings)
    log.info("settings read again from %s", settings.source)


def _serves(writer: HistoryWriter, settings: Settings, parent: ParentPipe) -> bool:
    """Rounds over one file: False when the server has gone, True when another file took its place.

    A backup restored meanwhile must not go unnoticed: records would go into the file moved away.
    """
    with _history(settings, parent) as history:
        while not parent.ended(ROUND_S):
            if history.replaced():
                return True
            writer.round(history)
    return False


def _history(settings: Settings, parent: ParentPipe) -> History:
    """The history, as soon as it can be had: until then everything waits safely on disk."""
    state = ""
    while True:
        try:
            return open_history(
                settings.state_dir / "history.db",
                busy_timeout_ms=settings["history.busy_timeout_ms"],
            )
        except DlqueueError as error:
            if str(error) != state:
                log.error("%s; records wait in the spool meanwhile", error)
            state = str(error)
            if parent.ended(10 * ROUND_S):
                raise


def main(argv: list[str]) -> int:
    """`python -m slurm_ext.advisor.history_writer.writer [dlqueue.toml]`."""
    os.nice(NICE)  # the answering process goes first
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends first, then its pipe
    config = Path(argv[0]) if argv else None
    try:
        settings = load(config)
        set_up(settings["log.format"])
        keep(settings, config)
    except DlqueueError as error:
        log.error("%s", error)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
