r"""The port on which login and web nodes ask; munge says who asks, and who answers.

    {"v":1,"kind":"question","bytes":..,"sha256":..,"credential":..}\n<question>
    {"v":1,"kind":"answer","bytes":..,"sha256":..,"credential":..}\n<answer>
    or {"v":1,"error":why}\n    for whoever did not say who it is

One question a connection. The asker's credential is judged before a byte of the question is read;
munge takes none twice. The answer's is over a digest of question and answer (question.py).
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from typing import cast

from slurm_ext.advisor.places import Places
from slurm_ext.advisor.stream_header import ANSWER, QUESTION, Header, header_of, signer
from slurm_ext.advisor.stream_server import POLL_S, StreamConnection, StreamServer, address_of
from slurm_ext.core.errors import DlqueueError, RefusedError, WireError
from slurm_ext.core.settings.document import Settings
from slurm_ext.node.transport.deliver import UndeliveredError, credential
from slurm_ext.questions.answerer import Answerer
from slurm_ext.questions.question import MOST_BYTES, answer_digest

MOST_CONNECTIONS = 256
MOST_OF_PEER = 128  # a login node has many users
MOST_JUDGED = 4  # credentials at the same time: each costs a process
BODY_S = 10.0
RETRY_S = 10.0  # after the port could not be had
log = logging.getLogger(__name__)


class QuestionPort(StreamServer):
    """Answers the questions of users on other machines."""

    what = "a question"

    def __init__(self, address: tuple[str, int], answerer: Answerer, munge_socket: str) -> None:
        self.answerer, self.munge_socket = answerer, munge_socket
        self._judging = threading.BoundedSemaphore(MOST_JUDGED)
        places = Places(most=MOST_CONNECTIONS, of_peer=MOST_OF_PEER)
        super().__init__(address, _Connection, places)

    def asker(self, header: Header) -> int:
        """The uid that signed the question. Raises RecordError, MissingError."""
        with self._judging:
            return signer(header, self.munge_socket)

    def signed(self, question_sha256: str, answer: bytes) -> dict[str, object]:
        """The line before an answer. Raises UndeliveredError where munge is down."""
        digest = answer_digest(question_sha256, answer)
        with self._judging:
            signature = credential(digest, self.munge_socket)
        line: dict[str, object] = {"v": 1, "kind": ANSWER, "bytes": len(answer)}
        return {**line, "sha256": digest, "credential": signature}


class _Connection(StreamConnection):
    def handle(self) -> None:
        port = cast(QuestionPort, self.server)
        try:
            if line := self.read_line():
                self._answer(port, header_of(line, QUESTION, MOST_BYTES))
        except (DlqueueError, OSError, UndeliveredError) as error:
            port.report(self.client_address, error)
            with suppress(OSError):  # it has gone
                self.reply({"v": 1, "error": str(error)[:500]})
                self.read_rest(MOST_BYTES)

    def _answer(self, port: QuestionPort, header: Header) -> None:
        uid = port.asker(header)
        port.places.prove(self.request)
        raw = self.read_body(header.size_bytes, BODY_S)
        if sha256(raw).hexdigest() != header.sha256:
            raise WireError("the question is not the one that was signed")
        try:
            with port.answerer.rate.turn(uid):
                answer = port.answerer.question(raw, uid)
        except RefusedError as error:
            answer = port.answerer.refusal(error)
        self.reply(port.signed(header.sha256, answer), answer)


class PortThread(threading.Thread):
    """Holds the port, and tries again where it is taken: other questions do not wait for it."""

    def __init__(self, settings: Settings, make: Callable[[tuple[str, int]], QuestionPort]) -> None:
        super().__init__(name="question port", daemon=True)
        where = settings["advisor.listen_questions"]
        self._address = address_of(settings.source, "advisor.listen_questions", where)
        self._make, self._where = make, where

    def run(self) -> None:
        """Serve until the process ends."""
        reported = ""
        while True:
            try:
                with self._make(self._address) as port:
                    log.info("answering questions at %s", self._where)
                    port.serve_forever(POLL_S)
            except (OSError, OverflowError) as error:
                if str(error) != reported:
                    log.error("advisor.listen_questions = %s: %s", self._where, error)
                reported = str(error)
            time.sleep(RETRY_S)
