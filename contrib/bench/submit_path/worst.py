"""The worst submission that a user can have accepted: its cost in the advisor and in Lua.

    python -m contrib.bench.submit_path.worst [--quick] [--json]

Searches for it: scripts of every kind of text at its bound, with hostile fields, combined by
chance. Each is tried once, the worst of them some times more, and the worst of those is measured in
rounds with an empty script. Each submission is another one, and what its runs say is computed
again, so that nothing is remembered. Its runs are of several shapes on cores that others wanted, on
machines of CPUS cores; with --alone, as they were until the search had others: alike, on cores of
their own, on 8. Times are of the CPU; Lua's is that of a real interpreter and a stand-in for
Slurm's job, without the wait for the advisor. A core may run at half its speed for a while, as its
sibling or host has other work: a fixed loop around each submission shows that, and `full_speed`
has the times at the speed of its quickest turn. Progress on stderr.
"""

import argparse
import gc
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import quantiles
from typing import Any, TypeVar

from contrib.bench.common.program import Result, at_most, options, run
from contrib.bench.submit_path.asked import CPUS, CROWDED, Bench
from contrib.bench.submit_path.hostile import EMPTY, Submitted, submission

ADVISOR_MS, LUA_MS = 5.0, 2.0  # at most
AGAIN, TIMES = 16, 5  # submissions that are tried some times more
T = TypeVar("T")


def result(args: argparse.Namespace) -> Result:
    """The benchmark's last line."""
    tries, rounds = (100, 30) if args.quick else (1000, 300)
    gc.freeze()
    gc.disable()  # as the advisor does while slurmctld may wait
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), *(() if args.alone else (CROWDED, CPUS)))
        for _ in range(30):
            bench.took_ms(EMPTY, {})
        figures = measured(bench, found(bench, tries), rounds)
    wanted = [
        at_most(
            "worst submission in the advisor, p99, ms", ADVISOR_MS, figures["advisor"]["p99_ms"]
        ),
        at_most("worst submission in Lua, p99, ms", LUA_MS, figures["lua"]["p99_ms"]),
    ]
    return {"bench": "submit_path.worst", "figures": figures, "wanted": wanted}


def found(bench: Bench, tries: int) -> dict[str, Submitted]:
    """The submission that costs the advisor most, and the one that costs Lua most."""
    every = [submission(number) for number in range(tries)]
    first = [bench.took_ms(*one[:2]) for one in _with_progress("tried", every)]
    worst = {}
    for at, who in enumerate(("advisor", "lua")):
        ranked = sorted(range(tries), key=lambda number: first[number][at], reverse=True)
        last = [every[number] for number in ranked[:AGAIN]]
        again = [min(bench.took_ms(*one[:2])[at] for _ in range(TIMES)) for one in last]
        worst[who] = last[again.index(max(again))]
        print(f"worst for {who}: {max(again):.2f} ms, {worst[who][2]}", file=sys.stderr)
    return worst


def _with_progress(what: str, every: Sequence[T]) -> Iterator[T]:
    """The same, telling now and then how many there were."""
    for number, one in enumerate(every, start=1):
        yield one
        if number % 50 == 0 or number == len(every):
            print(f"{what}: {number} of {len(every)}", file=sys.stderr)


def measured(bench: Bench, worst: dict[str, Submitted], rounds: int) -> dict[str, Any]:
    """Figures of the worst ones and of the empty script, in the same rounds."""
    figures: dict[str, Any] = {}
    for at, (who, (script, fields, what)) in enumerate(worst.items()):
        times, plain = _Times(), _Times()
        for _ in _with_progress(f"rounds of the worst for {who}", range(rounds)):
            times.add(lambda: bench.took_ms(script, fields)[at])  # noqa: B023 (called here)
            plain.add(lambda: bench.took_ms(EMPTY, {})[at])  # noqa: B023 (called here)
        figures[who] = {"what": what, **times.figures(), "empty_script": plain.figures()}
    return figures


class _Times:
    """Times in ms, each with that of a fixed loop around it."""

    def __init__(self) -> None:
        self._pairs: list[tuple[float, float]] = []

    def add(self, took_ms: Callable[[], float]) -> None:
        before_s = _loop_s()
        self._pairs.append((took_ms(), before_s + _loop_s()))

    def figures(self) -> dict[str, Any]:
        fastest_s = min(loop_s for _, loop_s in self._pairs)
        at_full_speed = [ms * fastest_s / loop_s for ms, loop_s in self._pairs]
        return _spread([ms for ms, _ in self._pairs]) | {"full_speed": _spread(at_full_speed)}


def _loop_s() -> float:
    from_s = time.thread_time()
    sum(number * number for number in range(5000))
    return time.thread_time() - from_s


def _spread(times_ms: list[float]) -> dict[str, float]:
    cuts = quantiles(times_ms, n=100, method="inclusive")
    return {
        name: round(value, 3) for name, value in (("p50_ms", cuts[49]), ("p99_ms", cuts[98]))
    } | {"max_ms": round(max(times_ms), 3)}


def main() -> None:
    """Search and print."""
    parser = options(__doc__, quick="100 submissions are tried, 30 rounds")
    parser.add_argument("--alone", action="store_true", help="runs on cores of their own, 8 CPUs")
    run(parser, result, _print)


def _print(measured: Result) -> None:
    for who, figure in measured["figures"].items():
        empty = figure["empty_script"]
        print(f"{who}: p50 {figure['p50_ms']} ms, p99 {figure['p99_ms']}, max {figure['max_ms']}")
        fast = figure["full_speed"]
        print(f"    at the core's full speed: p50 {fast['p50_ms']} ms, p99 {fast['p99_ms']}")
        print(f"    {figure['what']}")
        print(f"    an empty script: p50 {empty['p50_ms']} ms, p99 {empty['p99_ms']}")


if __name__ == "__main__":
    main()
