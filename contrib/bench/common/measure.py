"""Time and memory of one command, from its start to its exit."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PYTHON = "/usr/bin/python3"
# A child's peak memory begins with that of its parent: a bare Python stands between.
_BETWEEN = """
import os, sys, time
output, *argv = sys.argv[1:]
quiet = [(os.POSIX_SPAWN_OPEN, 1, output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)]
start = time.perf_counter()
pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=quiet)
_, status, used = os.wait4(pid, 0)
print(time.perf_counter() - start, used.ru_maxrss, status, used.ru_utime + used.ru_stime)
"""


@dataclass(frozen=True, slots=True)
class Spent:
    """Wall time, peak resident memory and processor time of a command."""

    seconds: float
    peak_kib: int
    cpu_s: float


def timed(
    argv: Sequence[str], *, env: Mapping[str, str] | None = None, output: str = os.devnull
) -> Spent:
    """Run a command with its stdout in a file; a command that fails ends the benchmark.

    Python's byte code is kept, as an installation has it: compiling took a third of `predict`.
    """
    if env is None:
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    between = [PYTHON, "-I", "-S", "-c", _BETWEEN, output, *argv]
    done = subprocess.run(between, env=env, check=True, stdout=subprocess.PIPE, text=True)
    seconds, peak_kib, status, cpu_s = done.stdout.split()
    if int(status):
        sys.exit(f"{' '.join(argv)} ended with status {status}")
    return Spent(float(seconds), int(peak_kib), float(cpu_s))


def quartiles(values: Sequence[float]) -> list[float]:
    """Lower and upper quartile, by rank."""
    ordered = sorted(values)
    return [round(ordered[len(ordered) * part // 4], 2) for part in (1, 3)]
