"""Answers people's questions in a process of its own.

It has its own memory of the same history, a lower priority than the process that answers
submissions, and records nothing. question_process.py hands it connections of the advisor's socket
(`predict`, `what_if`, `ping`); the port for other machines (port.py) is its own.
"""

import json
import logging
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

from slurm_ext.advisor.pipeline.journal import NoJournal
from slurm_ext.advisor.service.advisor import Advisor, refusal
from slurm_ext.advisor.service.question_process import CONNECTION
from slurm_ext.advisor.service.refresh import Refresher
from slurm_ext.advisor.service.rules_reader import RulesReader
from slurm_ext.advisor.service.server import Server
from slurm_ext.core.errors import DlqueueError
from slurm_ext.core.logs import set_up
from slurm_ext.core.settings.document import load
from slurm_ext.core.signals import signals
from slurm_ext.questions.answerer import Answerer, Counting
from slurm_ext.questions.port import PortThread, QuestionPort
from slurm_ext.questions.question import MOST_BYTES

NICE = 10
OOM_SCORE = "500"  # where memory is short, the kernel ends this process before the others
log = logging.getLogger(__name__)


class QuestionServer(Server):
    """Serves the connections that come through `channel`, each user not too often."""

    most_bytes = MOST_BYTES

    def __init__(self, channel: socket.socket, answerer: Answerer, refresher: Refresher) -> None:
        super().__init__([channel], answerer.line, refusal)
        self._refresher = refresher

    def _accept(self, source: socket.socket) -> bool:
        message, numbers, _, _ = socket.recv_fds(source, 1, 1)
        for number in numbers:
            self._welcome(socket.socket(fileno=number))
        if message and message != CONNECTION:
            self._refresher.reload_settings()
        return bool(message)


def counting(channel: socket.socket) -> Counting:
    """Tell the parent of each answer."""

    def count(kind: str, seconds: float) -> None:
        with suppress(OSError):  # the server has no time for it, or has gone
            channel.send(json.dumps([kind, seconds]).encode(), socket.MSG_DONTWAIT)

    return count


def answer(channel: socket.socket, config: Path | None) -> None:
    """Answer until the parent has gone. Raises SettingsError."""
    settings = load(config)
    set_up(settings["log.format"])
    advisor = Advisor(settings, NoJournal())
    refresher, rules = Refresher(advisor, config), RulesReader(advisor)
    for look in (refresher.refresh, rules.look):
        look()  # once before the first answer
    refresher.start()
    rules.start()
    answerer = Answerer(advisor, counting(channel))
    if settings["advisor.listen_questions"]:
        munge_socket = settings["node.munge_socket"]
        PortThread(settings, lambda where: QuestionPort(where, answerer, munge_socket)).start()
    with signals(
        signal.SIGHUP
    ) as signalled:  # the server's, which has its own; here it means nothing
        QuestionServer(channel, answerer, refresher).run(
            signalled, lambda numbers: not _ends(numbers)
        )


def _ends(numbers: bytes) -> bool:
    return signal.SIGTERM in numbers


def main(argv: list[str]) -> int:
    """`python -m slurm_ext.questions.process [dlqueue.toml]`, a channel as its input."""
    os.nice(NICE)  # the answering process goes first
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE, encoding="ascii")
    try:
        answer(socket.socket(fileno=0), Path(argv[0]) if argv else None)
    except DlqueueError as error:
        log.error("%s", error)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
