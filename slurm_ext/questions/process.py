"""Answers people's questions (`predict`, `what_if`, `ping`) in a process of its own.

It has its own memory of the same history, a lower priority than the process that answers
submissions, and records nothing. question_process.py hands it connections.
"""

import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from slurm_ext.advisor.pipeline.journal import NoJournal
from slurm_ext.advisor.service.advisor import Advisor, refusal
from slurm_ext.advisor.service.question_process import CONNECTION
from slurm_ext.advisor.service.refresh import Refresher
from slurm_ext.advisor.service.rules_reader import RulesReader
from slurm_ext.advisor.service.server import Client, Server
from slurm_ext.core.errors import DlqueueError, WireError
from slurm_ext.core.logs import set_up
from slurm_ext.core.settings.document import load
from slurm_ext.core.signals import signals
from slurm_ext.questions.sender import SenderRules

NICE = 10
OOM_SCORE = "500"  # where memory is short, the kernel ends this process before the others
MOST_BYTES = 256 * 1024  # of a question
ASKS_PER_S, ASKS_AT_ONCE = 10.0, 20.0  # of one user
MOST_ASKERS = 1024  # users whose allowances are kept before the idle ones are forgotten
log = logging.getLogger(__name__)


class QuestionServer(Server):
    """Serves the connections that come through `channel`, each user not too often."""

    most_bytes = MOST_BYTES

    def __init__(self, channel: socket.socket, advisor: Advisor, refresher: Refresher) -> None:
        super().__init__([channel], self._answered, refusal)
        self._channel = channel
        self._advisor, self._refresher = advisor, refresher
        self._senders = SenderRules(self._accounts)
        self._asks: dict[int, tuple[float, float]] = {}  # uid → (allowance, when)

    def _accept(self, source: socket.socket) -> bool:
        message, numbers, _, _ = socket.recv_fds(source, 1, 1)
        for number in numbers:
            self._welcome(socket.socket(fileno=number))
        if message and message != CONNECTION:
            self._refresher.reload_settings()
        return bool(message)

    def _reply(self, client: Client, request: bytes) -> tuple[bytes, bool]:
        if not self._may_ask(client.uid):
            return refusal("too many questions; ask again in a second"), False
        return super()._reply(client, request)

    def _answered(self, request: bytes, uid: int) -> tuple[bytes, bool]:
        began_s = time.perf_counter()
        try:
            own = self._senders.own(request, uid)
        except WireError as error:
            return refusal(str(error)), False
        reply, stays = self._advisor.reply(own, trusted=False)
        kind = json.loads(own.partition(b"\n")[0])["kind"] if stays else "refused"
        with suppress(OSError):  # the server has no time for it, or has gone
            said = json.dumps([kind, time.perf_counter() - began_s]).encode()
            self._channel.send(said, socket.MSG_DONTWAIT)
        return reply, stays

    def _accounts(self, user: str) -> Collection[str] | None:
        allowances = self._advisor.rules.allowances
        return None if allowances is None else allowances.accounts_of(user)

    def _may_ask(self, uid: int) -> bool:
        """A token bucket for each user; full buckets are not kept."""
        now = time.monotonic()
        if len(self._asks) >= MOST_ASKERS:
            filled_s = now - ASKS_AT_ONCE / ASKS_PER_S
            self._asks = {uid: ask for uid, ask in self._asks.items() if ask[1] > filled_s}
        left, since = self._asks.get(uid, (ASKS_AT_ONCE, now))
        left = min(ASKS_AT_ONCE, left + (now - since) * ASKS_PER_S)
        if left < 1:
            return False
        self._asks[uid] = (left - 1, now)
        return True


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
    with signals(signal.SIGHUP) as told:  # the server's, which has its own; here it means nothing
        QuestionServer(channel, advisor, refresher).run(told, lambda numbers: not _ends(numbers))


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
