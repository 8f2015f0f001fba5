"""The worst submission that a user can have accepted: its cost in the advisor and in Lua.

    python -m contrib.bench.submit_path.worst [--quick] [--json]

Searches for it: scripts of every kind of text at its bound, with hostile fields, combined by
chance. Each is tried once, the worst of them some times more, and the worst of those is measured in
rounds with an empty script. Each submission is another one, and what its runs say is computed
again, so that nothing is remembered. Its runs are of several shapes on cores that others wanted, on
machines of CPUS cores; with --alone, as they were until the search had others: alike, on cores of
their own, on 8. Times are of the CPU, which other programs hardly change; Lua's is that of a real
interpreter and a stand-in for Slurm's job, without the wait for the advisor. Progress on stderr.
"""

import argparse
import gc
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import quantiles
from typing import Any, TypeVar

from contrib.bench.common.program import Result, at_most, options, run
from contrib.bench.house.ways import advisor_of
from slurm_ext.advisor.evidence.whole_run import whole_run_predictor
from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.limits.gpu_pools import GpuPool
from slurm_ext.advisor.limits.partition_limits import ClusterRules
from slurm_ext.advisor.service.warm_up import RUN
from slurm_ext.core.job_keys import MAX_SCRIPT_BYTES, MAX_SCRIPT_LINES
from slurm_ext.core.records import ENV_NAMES, LoaderRun
from slurm_ext.core.settings.document import Settings
from tests.lua.lua_process import Expression, Lua, install, literal

ADVISOR_MS, LUA_MS = 5.0, 2.0  # at most
T = TypeVar("T")
CPUS, CPUS_ALONE = 128, 8  # of a node
AGAIN, TIMES = 16, 5  # submissions that are tried some times more
# Runs of several shapes that waited for their cores.
CROWDED = tuple(
    replace(
        RUN,
        workers=workers,
        cores=float(workers + 1),
        samples_per_s=7.0 * workers,
        accel_samples_per_s=1000.0,
        fetch_wall_s=0.14,
        fetch_queued_s=0.06,
        step_queued_s=0.0,
        main_queued_s=0.0,
    )
    for workers in range(1, 9)
)
EMPTY = "#!/bin/sh\n"
LINE = MAX_SCRIPT_BYTES // MAX_SCRIPT_LINES  # bytes of each, where there are as many as may be
LINES = ("a", "1", "-m a", "a.py", "srun", "srun -G", "\u00e9", "\udcff", "# a", " a ")
UNITS = (
    *(line.ljust(LINE - 1, "x")[: LINE - 1] + "\n" for line in LINES),
    "x",
    "-m a ",
    "-m ",
    ".py ",
    " ",
    "a ",
    "\x01",
    '"',
    "\\",
    "\udcff",
    "\u00e9",
    "\x1c",
    "1",
    "-m a\n",
    ".py\n",
    "a\n",
    "\n",
    "srun -G\n",
    "\\\n",
    "#\n",
    "/.py ",
    "SLURM_GPUS ",
    "a,",
    "--seed 1 ",
    "seed=1 ",
    "cd a ",
    "2026-01-02 ",
    "-m\n",
    "cd\n",
    "a\t",
    "\u20ac\u3000",
    # {n}: another number each time, so that nothing is met twice.
    "{n}.py ",
    "{n}.py -m a{n} ",
    "../{n}.py ",
    "a{n}/2026-1.py ",
    "src/{n}.py ",
    "cd src/{n} ",
    "--x{n}.seed=1 ",
    "srun -x-G{n}\n",
)
FOLDERS = ("/a", "/src", "/20", "a")
SETTINGS = {
    "site.mode": "act",
    "policy.holdout_share": 0.0,
    "sharing.mode": "act",
    "elastic.mode": "act",
    "control.mode": "act",
}
TIMED = """local job = mock_job(...)
local from = os.clock()
local line = request.line(job, job.script, {}, 50, 0)
local took = os.clock() - from
return { line = line, took = took * 1000 }
"""
ANSWERED = """local job = mock_job({}, {}, {})
local from = os.clock()
local writes, message = edits.from_reply(...)
edits.apply(job, writes)
return (os.clock() - from) * 1000
"""


class Bench:
    """An advisor that knows the job's user and name, and a Lua that asks it."""

    def __init__(
        self, folder: Path, runs: Sequence[LoaderRun] = (), cpus: int = CPUS_ALONE
    ) -> None:
        self.advisor, self.job = advisor_of(folder, runs)
        self.advisor.settings = Settings(values=SETTINGS)
        self.advisor.rules = _rules(cpus)
        install(folder, Settings())
        self.lua = Lua("lua5.1")
        parts = "json = dofile(... .. '/json.lua') edits = loadfile(... .. '/edits.lua')(json)"
        request = "request = dofile(... .. '/request.lua')"
        self.lua.run(f"{parts} {request}", str(folder).encode())
        self.count = 0

    def took_ms(self, script: str, fields: Mapping[str, Any]) -> tuple[float, float]:
        """CPU of the advisor and of Lua for one submission, which none was before."""
        self.count += 1
        whole_run_predictor.cache_clear()
        whole = {
            "name": self.job.name,
            "user_name": self.job.user_name,
            "partition": "none",
            **{name: _raw(self._new(value)) for name, value in fields.items() if name != "env"},
            "work_dir": f"/{self.count}" + fields.get("work_dir", ""),
            "script": Expression("(...)"),
        }
        given = ", ".join(map(literal, (whole, fields.get("env", {}), {})))
        asked = self.lua.run(TIMED.replace("...", given), _raw(script))
        from_s = time.thread_time()
        reply, _ = self.advisor.reply(asked[b"line"], trusted=True)
        took_ms = (time.thread_time() - from_s) * 1000
        return took_ms, asked[b"took"] + self.lua.run(ANSWERED, reply.rstrip(b"\n"))

    def _new(self, value: Any) -> Any:
        """The value with this submission's number in it, where it has a place for that."""
        return value.replace("{number}", str(self.count)) if isinstance(value, str) else value


def _rules(cpus: int) -> ClusterRules:
    names = ["none", *(f"p{number}" for number in range(200))]
    return ClusterRules(
        partitions={name: PartitionRules(cpus_per_node=cpus) for name in names},
        pools={name: GpuPool(nodes=frozenset(map(str, range(100)))) for name in names},
    )


def _raw(value: Any) -> Any:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def hostile_fields() -> dict[str, dict[str, Any]]:
    """Every field that a user writes, at its bound and beyond."""
    lists = {
        f"tres_per_{unit}": "gres:gpu:a:1," * 400 for unit in ("node", "job", "task", "socket")
    }
    return {
        "none": {},
        "one GPU": {"tres_per_node": "gres:gpu:1", "comment": "dlqueue=share"},
        "an unknown GPU": {"tres_per_node": "gres:gpu:a{number}:1", "comment": "dlqueue=share"},
        **{f"folder {name}": {"work_dir": name * (1024 // len(name))} for name in FOLDERS},
        "gres": {**lists, "cpus_per_tres": "gres:gpu:1," * 400},
        "argv": {"argc": 99, "argv": dict.fromkeys(range(99), b"\x01\xff" * 300)},
        "partitions": {"partition": ",".join(f"p{n % 200}" for n in range(900))},
        "env": {"env": dict.fromkeys(ENV_NAMES, "x=1 " * 900)},
        "comment": {"comment": "dlqueue=share," * 400, "features": "a&" * 900},
        "names": {"qos": "q," * 900, "account": "a" * 4000, "reservation": "r," * 900},
    }


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


Submitted = tuple[str, dict[str, Any], str]
"""A submission's script and fields, and what they are in words."""


def found(bench: Bench, tries: int) -> dict[str, Submitted]:
    """The submission that costs the advisor most, and the one that costs Lua most."""
    every = [_submitted(number) for number in range(tries)]
    first = [bench.took_ms(*one[:2]) for one in _told("tried", every)]
    worst = {}
    for at, who in enumerate(("advisor", "lua")):
        ranked = sorted(range(tries), key=lambda number: first[number][at], reverse=True)
        last = [every[number] for number in ranked[:AGAIN]]
        again = [min(bench.took_ms(*one[:2])[at] for _ in range(TIMES)) for one in last]
        worst[who] = last[again.index(max(again))]
        print(f"worst for {who}: {max(again):.2f} ms, {worst[who][2]}", file=sys.stderr)
    return worst


def _submitted(number: int) -> Submitted:
    """One submission: each kind of text by itself first, then with others and with fields."""
    chance, fields = random.Random(number), hostile_fields()
    unit = UNITS[number % len(UNITS)] + (chance.choice(UNITS) if number >= len(UNITS) else "")
    names = chance.sample(sorted(fields), k=min(number // len(UNITS), 3))
    whole = {key: value for name in names for key, value in fields[name].items()}
    what = f"{unit!r} again and again, {' and '.join(names) or 'nothing else'}"
    return _long(unit), whole, what


def _told(what: str, every: Sequence[T]) -> Iterator[T]:
    """The same, telling now and then how many there were."""
    for number, one in enumerate(every, start=1):
        yield one
        if number % 50 == 0 or number == len(every):
            print(f"{what}: {number} of {len(every)}", file=sys.stderr)


def _long(unit: str) -> str:
    """A script of this text again and again, as long as one that is looked at may be."""
    room, parts = MAX_SCRIPT_BYTES - len(EMPTY), list[str]()
    lines = len((unit * 2).splitlines()) - len(unit.splitlines())  # that each one more begins
    most = (MAX_SCRIPT_LINES - 2) // lines if lines else room
    while len(parts) < most:
        parts.append(unit.replace("{n}", str(len(parts))))
        room -= len(_raw(parts[-1]))
        if room < 0:
            parts.pop()
            break
    return EMPTY + "".join(parts)


def measured(bench: Bench, worst: dict[str, Submitted], rounds: int) -> dict[str, Any]:
    """Figures of the worst ones and of the empty script, in the same rounds."""
    figures: dict[str, Any] = {}
    for at, (who, (script, fields, what)) in enumerate(worst.items()):
        times, plain = [], []
        for _ in _told(f"rounds of the worst for {who}", range(rounds)):
            times.append(bench.took_ms(script, fields)[at])
            plain.append(bench.took_ms(EMPTY, {})[at])
        figures[who] = {"what": what, **_spread(times), "empty_script": _spread(plain)}
    return figures


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
        print(f"    {figure['what']}")
        print(f"    an empty script: p50 {empty['p50_ms']} ms, p99 {empty['p99_ms']}")


if __name__ == "__main__":
    main()
