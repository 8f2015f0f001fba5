"""The process that answers people's questions, as its parent sees it.

Connections of users are handed to it (SCM_RIGHTS), so that no question, however many there are or
however long they take, keeps a submission waiting. It starts with the first of them, or at once
where everybody may ask. While there is none, connections are closed at once, and `dlqueue predict`
reads the history itself.

The channel is a socket pair, the child's standard input: a connection or a byte to read the
settings again in one direction, `[kind, seconds]` of each answer in the other.
"""

import json
import logging
import socket
import struct
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from slurm_ext.advisor.service.child_process import ChildProcess

MODULE = "slurm_ext.questions.process"
CONNECTION, RELOAD = b"c", b"\n"  # messages to the child
_MOST_BYTES = 1024  # of a message from it
log = logging.getLogger(__name__)


class QuestionProcess(ChildProcess):
    """Runs the process as soon as somebody asks, and calls `answered` for each of its answers."""

    def __init__(
        self,
        config: Path | None,
        answered: Callable[[str, float], None],
        *,
        at_once: bool = False,
    ) -> None:
        super().__init__("question_process", MODULE, config)
        self._answered = answered
        self._wanted = threading.Event()
        if at_once:
            self._wanted.set()
        self._channel, self._theirs = _pair()

    def run(self) -> None:
        """Wait for a first connection, then as every child."""
        self._wanted.wait()
        super().run()

    def hand_over(self, client: socket.socket) -> bool:
        """Give it a connection, without waiting; False where it cannot take it."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", client.fileno()))]
        try:  # not socket.send_fds, which forgets its flags and waits
            self._channel.sendmsg([CONNECTION], rights, socket.MSG_DONTWAIT)
        except OSError:  # it has gone, or has more than it can take
            return False
        self._wanted.set()
        return True

    def reload_settings(self) -> None:
        """Have the child read its settings again; one that starts just now does so anyway."""
        with suppress(OSError):
            self._channel.send(RELOAD, socket.MSG_DONTWAIT)

    def _spawn(self) -> "subprocess.Popen[bytes]":
        with self._theirs as theirs:
            return subprocess.Popen(self._command, stdin=theirs.fileno())

    def _lived(self) -> str:
        """Start it, count its answers until its end, and take no connection after that."""
        try:
            if self._channel.fileno() < 0:
                self._channel, self._theirs = _pair()
            self._child = self._spawn()
            self._count()
        except OSError as error:
            return f"could not be started ({error.strerror})"
        finally:
            self._channel.close()
        status = self._child.wait()
        return f"ended with status {status}" if status else ""

    def _count(self) -> None:
        """Read what it says of its answers until it has gone."""
        with suppress(ConnectionResetError):
            while message := self._channel.recv(_MOST_BYTES):
                kind, seconds = json.loads(message)
                self._answered(kind, seconds)

    def stop(self) -> None:
        """End the child, and close what nobody else will."""
        super().stop()
        if self.is_alive():
            self.join()
        for end in (self._channel, self._theirs):
            end.close()

    def _hang_up(self) -> None:
        self._wanted.set()
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)


def _pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
