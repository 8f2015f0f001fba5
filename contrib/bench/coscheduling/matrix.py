"""Measured rates of every job alone, and of every two jobs side by side on two cores.

Rates are steps a second of the time in which the job had its core: time that other programs of the
machine take does not count (without other programs it is zero).
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import combinations_with_replacement
from pathlib import Path
from statistics import median
from typing import Any

from contrib.bench.coscheduling.kernels import KINDS, make_files

Worker = subprocess.Popen[str]
KERNEL_FILE = Path(__file__).with_name("kernels.py")


@dataclass(frozen=True, slots=True)
class Matrix:
    """Steps/s alone by kind, and the speed of `a` beside `b` (1 is unhurt) by (a, b)."""

    solo: Mapping[str, float]
    speed: Mapping[tuple[str, str], float]
    queued_share: float = 0.0  # of the time measured, taken by strangers

    def as_json(self) -> dict[str, Any]:
        """Pairs as `a+b`."""
        speed = {f"{a}+{b}": value for (a, b), value in self.speed.items()}
        return {**asdict(self), "solo": dict(self.solo), "speed": speed}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "Matrix":
        """Read what `as_json` wrote."""
        speed = {tuple(name.split("+")): value for name, value in body["speed"].items()}
        return cls(body["solo"], speed, body["queued_share"])


def measure(
    folder: Path,
    *,
    seconds: float,
    repeats: int,
    progress: Callable[[float], None] = lambda _: None,
    kinds: Sequence[str] = KINDS,
) -> Matrix:
    """Run all pairs `repeats` times, alone before and in the middle of each time; medians.

    Files are read through first: on a virtual disk the first pass is the host's, not ours.
    """
    make_files(folder / "data")
    for path in (folder / "data").iterdir():
        path.read_bytes()
    with _workers(folder / "data", kinds) as (first, second):
        rates: dict[tuple[str, ...], list[tuple[float, ...]]] = {}
        queued: list[float] = []
        for turn in range(repeats):
            asked = _asked(kinds)
            for number, names in enumerate(asked):
                procs = [first[names[0]], *([second[names[1]]] if len(names) > 1 else [])]
                replies = _together(procs, seconds)
                rates.setdefault(names, []).append(tuple(rate for rate, _ in replies))
                queued += [share for _, share in replies]
                progress((turn * len(asked) + number + 1) / (repeats * len(asked)))
    return _matrix(rates, queued, kinds)


def _asked(kinds: Sequence[str]) -> list[tuple[str, ...]]:
    """Each alone, half of the pairs, each alone, the other pairs."""
    alone: list[tuple[str, ...]] = [(kind,) for kind in kinds]
    twos = list(combinations_with_replacement(kinds, 2))
    half = len(twos) // 2
    return [*alone, *twos[:half], *alone, *twos[half:]]


def _matrix(
    rates: Mapping[tuple[str, ...], list[tuple[float, ...]]],
    queued: Sequence[float],
    kinds: Sequence[str],
) -> Matrix:
    solo = {kind: median(row[0] for row in rates[kind,]) for kind in kinds}
    speed = {}
    for names, rows in rates.items():
        if len(names) == 2:
            a, b = names
            ours = median(row[0] for row in rows) / solo[a]
            theirs = median(row[1] for row in rows) / solo[b]
            if a == b:
                ours = theirs = (ours + theirs) / 2
            speed[a, b], speed[b, a] = ours, theirs
    return Matrix(solo, speed, sum(queued) / max(1, len(queued)))


def _together(procs: Sequence[Worker], seconds: float) -> list[tuple[float, float]]:
    """Rate and queued share of each while all work."""
    for core, proc in enumerate(procs):
        assert proc.stdin is not None
        proc.stdin.write(f"{seconds} {core}\n")
        proc.stdin.flush()
    rates = []
    for proc in procs:
        assert proc.stdout is not None
        reply = json.loads(proc.stdout.readline())
        had_core_s = max(0.05 * reply["wall_s"], reply["wall_s"] - reply["queued_s"])
        rates.append((reply["steps"] / had_core_s, reply["queued_s"] / reply["wall_s"]))
    return rates


@contextmanager
def _workers(data: Path, kinds: Sequence[str]) -> Iterator[tuple[dict[str, Worker], ...]]:
    """Two processes of each kind, warm and waiting."""
    argv = [sys.executable, str(KERNEL_FILE)]
    sets: tuple[dict[str, Worker], ...] = ({}, {})
    try:
        for kind in kinds:
            for one in sets:
                one[kind] = subprocess.Popen(
                    [*argv, kind, "--data", str(data), "--serve"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            for one in sets:
                stdout = one[kind].stdout
                assert stdout is not None
                assert stdout.readline() == "ready\n", kind
        yield sets
    finally:
        for one in sets:
            for proc in one.values():
                proc.kill()
                proc.wait()
