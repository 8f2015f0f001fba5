"""Asks the process that talks to NVML, and never waits for it: the answer comes a sample later.

A question unanswered for HUNG_S means that the driver hangs. Its process is killed (it may stay, in
the driver, until the machine restarts) and after MOST_HANGS nobody asks again.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

HUNG_S = 5.0
MOST_HANGS = 2
MAX_ANSWER = 1 << 20
_PR_SET_PDEATHSIG = 1
_NAME = "dlqueue-nvml"


class NvmlClient:
    """At most one question under way; `why` says why there are no answers (any more)."""

    def __init__(self, hung_s: float = HUNG_S) -> None:
        self.why: str | None = None
        self.cpu_s = 0.0  # that the reading cost, of a core
        self.hangs = 0
        self._hung_s = hung_s
        self._pid = 0
        self._to = self._from = -1
        self._asked_s: float | None = None
        self._buffer = b""

    def idle(self) -> bool:
        """True if a question may be asked now."""
        return self.why is None and self._asked_s is None

    def ask(self, question: dict[str, Any]) -> None:
        """Put a question; starts the process that answers. Its first line says it is ready."""
        if not self._pid:
            self._start()
        self._asked_s = time.monotonic()
        try:
            os.write(self._to, json.dumps(question).encode() + b"\n")
        except OSError as error:
            self._fail(f"its reader ended: {error.strerror}")

    def answer(self, wait_s: float = 0.0) -> dict[str, Any] | None:
        """The answer, where it is there within `wait_s`."""
        deadline = time.monotonic() + wait_s
        while self._asked_s is not None:
            reply = self._line(max(0.0, deadline - time.monotonic()))
            if reply is None:
                self._judge()
                return None
            self.cpu_s = max(self.cpu_s, float(reply.get("cpu_s", 0.0)))
            if "failed" in reply:
                self._fail(str(reply["failed"]))
            elif "ready" not in reply:
                self._asked_s = None
                return reply
        return None

    def close(self) -> None:
        """End the process; never waits for one that hangs."""
        if not self._pid:
            return
        for fd in (self._to, self._from):
            os.close(fd)
        try:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, os.WNOHANG)
        except OSError:
            pass  # it was gone
        self._pid, self._asked_s, self._buffer = 0, None, b""

    def _judge(self) -> None:
        if self._asked_s is None or time.monotonic() - self._asked_s < self._hung_s:
            return
        self.hangs += 1
        self.close()
        if self.hangs >= MOST_HANGS:
            self._fail(f"it did not answer within {self._hung_s:g} s, {self.hangs} times")

    def _fail(self, why: str) -> None:
        self.why = why
        self.close()

    def _line(self, wait_s: float) -> dict[str, Any] | None:
        poll = select.poll()
        poll.register(self._from, select.POLLIN | select.POLLHUP)
        while b"\n" not in self._buffer:
            if len(self._buffer) > MAX_ANSWER or not poll.poll(wait_s * 1000):
                return None
            chunk = os.read(self._from, 65536)
            if not chunk:
                return {"failed": "its reader ended without a word"}
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            reply = json.loads(line)
        except ValueError:
            return {"failed": "its reader speaks no JSON"}
        return reply if isinstance(reply, dict) else {"failed": "its reader speaks nonsense"}

    def _start(self) -> None:
        their_end, self._to = os.pipe()
        self._from, our_answers = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _become_reader(their_end, our_answers)
        os.close(their_end)
        os.close(our_answers)


def _become_reader(asking: int, answering: int) -> NoReturn:
    """In the child: nothing of the sampler's stays open, least of all the job's lock."""
    try:
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2 and int(name) not in (asking, answering):
                try:
                    os.close(int(name))
                except OSError:
                    pass  # the listing's own descriptor
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        with open("/proc/self/comm", "w", encoding="ascii") as comm:
            comm.write(_NAME)
        from slurm_ext.node.counters.gpu.nvml_reader import serve

        serve(asking, answering)
    # Whatever it was: the sampler sees the pipe close and says so.
    except BaseException:  # noqa: S110 - nothing reads a message
        pass
    finally:
        os._exit(0)
