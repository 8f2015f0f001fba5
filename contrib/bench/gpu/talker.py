"""A program of this benchmark that takes orders, and answers, in JSON lines."""

import contextlib
import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from contrib.bench.gpu.here import ROOT

START_S = 120.0  # importing torch and starting CUDA
END_S = 3.0


class ProgramError(Exception):
    """A program ended, or did not answer; the message has its last words."""


class Talker:
    """One program, from its start to its end; `said` is where its stderr goes."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], said: str) -> None:
        module = argv[argv.index("-m") + 1] if "-m" in argv else argv[0]
        self._name = module.rpartition(".")[2]
        self._said, self._buffer = Path(said), b""
        with self._said.open("wb") as errors:
            self._process = subprocess.Popen(
                argv,
                cwd=ROOT,
                env=dict(env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def tell(self, **words: Any) -> None:
        """Hand it one line."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `hear` says why it ended
            self._process.stdin.write(json.dumps(words).encode() + b"\n")
            self._process.stdin.flush()

    def hear(self, seconds: float = START_S) -> dict[str, Any]:
        """Its next line that is an object. Raises ProgramError."""
        deadline = time.monotonic() + seconds
        while True:
            line = self._line(deadline)
            with contextlib.suppress(ValueError):  # a library's own words
                found = json.loads(line)
                if isinstance(found, dict):
                    return found

    def ended(self, seconds: float) -> None:
        """Wait for its end by itself, or so long."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def _line(self, deadline: float) -> bytes:
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([pipe], [], [], left_s)[0]:
                raise ProgramError(f"{self._name} did not answer in time")
            chunk = os.read(pipe, 1 << 16)
            if not chunk:
                raise ProgramError(f"{self._name} ended: {self._last_words()}")
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _last_words(self) -> str:
        lines = self._said.read_text(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else "without a word"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        self._process.terminate()  # a launcher hands it on to its ranks
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.wait()
