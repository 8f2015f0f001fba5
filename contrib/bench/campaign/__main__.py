"""A real Slurm under load with everything on, and one fault at a time out of forty (root).

    python -m contrib.bench.campaign [--only FAULT]... [--submissions N] [--jobs M] [--state FILE]
                                     [--page FILE] [--logs FOLDER] [--list] [--quick] [--json]

Each fault gets a cluster of its own: four hosts (network namespaces) with task/cgroup and
slurmdbd, mode act, probe, hooks, stream, and every loop in shadow. Three users submit at once what
users submit, jobs run and end in every way; a fifth of it before the fault, three fifths under it,
a fifth after it is healed. What was rejected, drained, changed, lost, doubled or held up is read
from Slurm's accounting, queue and log, and from the history. With --state each row is kept once it
is whole, and the next call goes on there; with --page the table is written as Markdown.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from contrib.bench.campaign.cluster import cluster
from contrib.bench.campaign.faults import FAULTS
from contrib.bench.campaign.faults.fault import Fault
from contrib.bench.campaign.measure import Counts, Measurement
from contrib.bench.campaign.page import page
from contrib.bench.campaign.row import RECOVERY_S, Row
from contrib.bench.campaign.state import State, commit
from contrib.bench.common.program import Result, at_most, options, row, run
from slurm_ext.core.errors import InputError, MissingError

SUBMISSIONS, JOBS = 10_000, 500
QUICK = Counts(submissions=150, jobs=26)


def main() -> None:
    """Run the campaign and print."""
    parser = options(__doc__, quick="150 submissions and 26 jobs a fault, no fault and two others")
    parser.add_argument("--only", action="append", default=[], metavar="FAULT", help="repeatable")
    parser.add_argument(
        "--submissions", type=int, default=SUBMISSIONS, help=f"a fault ({SUBMISSIONS})"
    )
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"that end, a fault ({JOBS})")
    parser.add_argument("--state", type=Path, help="file to keep rows in, and go on from")
    parser.add_argument("--page", type=Path, help="file to write the table to")
    parser.add_argument("--logs", type=Path, help="folder for the logs of rows that missed")
    parser.add_argument("--list", action="store_true", help="list the faults, measure nothing")
    run(parser, result, show)


def result(args: argparse.Namespace) -> Result:
    """The benchmark's last line. Raises MissingError unless root."""
    if args.list:
        return {"bench": "campaign", "figures": {f.name: f.what for f in FAULTS}, "wanted": []}
    if os.geteuid() != 0:
        raise MissingError("hosts, full disks and other users need root", "run it as root")
    counts = QUICK if args.quick else Counts(args.submissions, args.jobs)
    state = State(args.state, counts)
    for fault in chosen(args.only or ([f.name for f in FAULTS[:3]] if args.quick else [])):
        why = fault.missing()
        if why:
            print(f"{fault.name}: left out, {why}", file=sys.stderr)
        elif state.row(fault.name) is None or args.only:
            _measured(fault, counts.of(fault), state, args.logs)
            _write(args.page, state)
    rows = {fault.name: row for fault in FAULTS if (row := state.row(fault.name)) is not None}
    figures = {name: state.rows[name] for name in rows}
    return {"bench": "campaign", "figures": figures, "wanted": wanted(list(rows.values()))}


def chosen(names: Sequence[str]) -> list[Fault]:
    """The faults of these names, all without one. Raises InputError."""
    known = {fault.name: fault for fault in FAULTS}
    for name in names:
        if name not in known:
            raise InputError("--only", f"{name!r} is none of {', '.join(known)}")
    return [fault for fault in FAULTS if not names or fault.name in names]


def wanted(rows: Sequence[Row]) -> list[Result]:
    """Nothing that harms in any row, and a soon recovery."""
    names = rows[0].harm if rows else {}
    harm = [at_most(name, 0, sum(one.harm[name] for one in rows)) for name in names]
    never = [one.fault for one in rows if one.recovery_s is None]
    slowest = max((one.recovery_s or 0 for one in rows), default=0.0)
    longest = sum(one.over_deadline for one in rows)
    soon = row(
        "seconds to recover",
        f"<= {RECOVERY_S:g}",
        never or slowest,
        met=not never and slowest <= RECOVERY_S,
    )
    return [*harm, at_most("calls beyond the deadline", 0, longest), soon]


def _measured(fault: Fault, counts: Counts, state: State, logs: Path | None) -> None:
    began_s, measured_at, load = time.monotonic(), commit(), os.getloadavg()[0]
    say = _progress(fault.name, began_s)
    with tempfile.TemporaryDirectory(prefix="dlq-campaign-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        say(fault.what)
        with (
            cluster(folder, fault.needs, fault.settings) as running,
            fault.prepared(running),
        ):
            row = Measurement(fault, running, counts).row(say)
            if logs is not None and not row.held:
                shutil.copytree(running.slurm.path("log"), logs / fault.name, dirs_exist_ok=True)
    state.keep(row, commit=measured_at, load=load, seconds=time.monotonic() - began_s)
    say(f"{'held' if row.held else 'MISSED'}: {row.harm}, recovery {row.recovery_s}")


def _progress(name: str, began_s: float) -> Callable[[str], None]:
    def say(what: str) -> None:
        print(f"{name} {time.monotonic() - began_s:4.0f} s: {what}", file=sys.stderr, flush=True)

    return say


def _write(path: Path | None, state: State) -> None:
    if path is not None:
        rows = {fault.name: row for fault in FAULTS if (row := state.row(fault.name)) is not None}
        path.write_text(page(FAULTS, rows, state.rows))


def show(measured: Result) -> None:
    """One line a fault."""
    for name, figure in measured["figures"].items():
        if isinstance(figure, str):
            print(f"{name}: {figure}")
            continue
        counts = {key: len(value) for key, value in figure.items() if isinstance(value, list)}
        told = ", ".join(f"{count} {key}" for key, count in counts.items() if count) or "no harm"
        print(f"{name}: {told}; recovery {figure['recovery_s']} s")


if __name__ == "__main__":
    main()
