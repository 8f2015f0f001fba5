"""`dlqueue serve`: assembles advisor, socket, refresher and child processes, and ends them."""

import gc
import logging
import os
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from slurm_ext.advisor.pipeline.journal import Journal
from slurm_ext.advisor.service.advisor import Advisor, refusal
from slurm_ext.advisor.service.child_process import HistoryWriterProcess
from slurm_ext.advisor.service.question_process import QuestionProcess
from slurm_ext.advisor.service.refresh import Refresher
from slurm_ext.advisor.service.rules_reader import RulesReader
from slurm_ext.advisor.service.server import Admitting, Answering, Server
from slurm_ext.advisor.service.standby import (
    LOCK,
    ClaimWatch,
    other_cluster,
    owner_of,
    sign,
    wait_for_turn,
)
from slurm_ext.advisor.service.unix_socket import SUBMIT, fits, listener, remove
from slurm_ext.advisor.service.warm_up import warm_up
from slurm_ext.core.errors import AdvisorError
from slurm_ext.core.files import try_lock
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.signals import signals

if TYPE_CHECKING:
    from slurm_ext.advisor.service.metrics import MetricsServer


class BackgroundThread(Protocol):
    """A thread beside the answering one."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End soon."""


SWITCH_S = 0.0005  # how long another thread may keep the answering one waiting
log = logging.getLogger(__name__)


def serve(settings: Settings, config: Path | None) -> None:
    """Answer until SIGTERM or SIGINT; SIGHUP reads the settings again. Raises AdvisorError."""
    with ExitStack() as stack:
        stack.enter_context(_alone(settings))
        journal = Journal(settings.state_dir / "journal")
        stack.callback(journal.close)
        advisor = Advisor(settings, journal)
        refresher = Refresher(advisor, config, marks=True)
        refresher.refresh()
        warm_up(advisor)
        wakeup = stack.enter_context(signals(signal.SIGHUP))
        writer = HistoryWriterProcess(config)
        open_to_all = bool(settings["advisor.socket_mode"] & stat.S_IWOTH)
        counted = partial(advisor.counters.answered, deadline_s=0.0, breaker_s=0.0)
        asked_soon = open_to_all or bool(settings["advisor.listen_questions"])
        questions = QuestionProcess(config, counted, at_once=asked_soon)
        rules = RulesReader(advisor)
        rules.start()
        stack.callback(rules.stop)
        rules.wait_for_first()
        with _sockets(settings) as listening:
            helpers: list[BackgroundThread] = [
                writer,
                questions,
                refresher,
                ClaimWatch(settings.state_dir),
                *_metrics(advisor),
            ]
            for helper in helpers:
                helper.start()
                stack.callback(helper.stop)
            log.info("answering at %s with %d runs", settings["paths.socket"], len(advisor.runs))
            server = Server(listening, _submitted(advisor), refusal, _admitted(advisor, questions))
            children = (writer.reload_settings, questions.reload_settings)
            _answer(server, wakeup, (refresher.reload_settings, *children))


def _submitted(advisor: Advisor) -> Answering:
    return lambda request, _uid: advisor.reply(request, trusted=True)


def _admitted(advisor: Advisor, questions: QuestionProcess) -> Admitting:
    """Users who are not trusted ask the other process, where they cost no submission its time."""

    def admitted(client: socket.socket, uid: int) -> bool:
        if uid in advisor.trusted_uids():
            return True
        questions.hand_over(client)
        return False

    return admitted


def _metrics(advisor: Advisor) -> list["MetricsServer"]:
    """The metrics server where the settings want one; else its library is not imported."""
    if not advisor.settings["metrics.listen"]:
        return []
    from slurm_ext.advisor.service.metrics import MetricsServer

    return [MetricsServer(advisor)]


@contextmanager
def _sockets(settings: Settings) -> Iterator[list[socket.socket]]:
    """The socket that only slurmctld may use, where its path is not too long, and everybody's."""
    path, mode = Path(settings["paths.socket"]), settings["advisor.socket_mode"]
    with ExitStack() as stack:
        sockets = [stack.enter_context(_listening(path, mode))]
        if _asked_at(path) != path:
            sockets.insert(
                0, stack.enter_context(_listening(_asked_at(path), mode & ~stat.S_IRWXO))
            )
        yield sockets


def _asked_at(path: Path) -> Path:
    """Path of the socket at which slurmctld asks."""
    own = Path(f"{path}{SUBMIT}")
    return own if fits(own) else path


@contextmanager
def _listening(path: Path, mode: int) -> Iterator[socket.socket]:
    """Hold a socket, and remove it as soon as nobody answers."""
    with listener(path, mode) as listening:
        made = path.lstat()
        try:
            yield listening
        finally:
            remove(path, made)


def _answer(server: Server, wakeup: int, reload: Iterable[Callable[[], None]]) -> None:
    """The loop itself, with garbage collection off while somebody waits."""

    def on_signal(numbers: bytes) -> bool:
        if signal.SIGHUP in numbers:
            for reload_settings in reload:
                reload_settings()
        return not {signal.SIGTERM, signal.SIGINT} & set(numbers)

    sys.setswitchinterval(SWITCH_S)
    gc.freeze()
    gc.disable()
    try:
        server.run(wakeup, on_signal)
    finally:
        gc.enable()


@contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """One advisor for one state folder; that of another host is waited for. Raises AdvisorError."""
    state_dir = settings.state_dir
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
        lock = os.open(state_dir / LOCK, os.O_RDWR | os.O_CREAT, 0o640)
    except OSError as error:
        raise AdvisorError(f"{state_dir} cannot be used: {error.strerror}") from None
    try:
        if not try_lock(lock):
            _stand_by(settings, lock)
        sign(lock, state_dir, settings["site.cluster"])
        yield
    finally:
        os.close(lock)


def _stand_by(settings: Settings, lock: int) -> None:
    """Wait for the advisor of another controller of this cluster; others raise AdvisorError."""
    host, own = owner_of(lock)[0], settings["site.cluster"]
    if cluster := other_cluster(lock, own):
        raise AdvisorError(
            f"{settings.state_dir} is the state folder of cluster {cluster}, whose advisor runs on"
            f" {host}; give cluster {own} another paths.state_dir"
        )
    if host in ("", socket.gethostname()):
        raise AdvisorError(f"another advisor uses {settings.state_dir}; stop it first")
    trusted = {0, os.geteuid(), *settings["advisor.trusted_uids"]}
    mode = settings["advisor.socket_mode"] & ~stat.S_IRWXO
    with _listening(_asked_at(Path(settings["paths.socket"])), mode) as door:
        wait_for_turn(lock, settings.state_dir, door, trusted)
