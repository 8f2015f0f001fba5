"""A real Slurm under load with everything on, and one fault at a time out of forty (root).

    python -m contrib.bench.campaign [--only FAULT]... [--submissions N] [--jobs M] [--state FILE]
                                     [--page FILE] [--page-only] [--logs FOLDER] [--list] [--quick]
                                     [--json]

Each fault gets a cluster of its own: four hosts (network namespaces) with task/cgroup and
slurmdbd, mode act, probe, hooks, stream, and every loop in shadow. Three users submit at once what
users submit, jobs run and end in every way; a fifth of it before the fault, three fifths under it,
a fifth after it is healed. What was rejected, drained, changed, lost, doubled or held up is read
from Slurm's accounting, queue and log, and from the history. With --state each row is kept once it
is whole, and the next call goes on there; with --page the table is written as Markdown, where rows
that the state lacks stay as they are, with their commit and load; --page-only measures nothing.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from contrib.bench.campaign.faults import FAULTS
from contrib.bench.campaign.faults.fault import Fault
from contrib.bench.campaign.measure import Counts
from contrib.bench.campaign.pages.earlier import earlier
from contrib.bench.campaign.pages.page import page
from contrib.bench.campaign.row import Row
from contrib.bench.campaign.state import State
from contrib.bench.campaign.turn import measured
from contrib.bench.campaign.wanted import wanted
from contrib.bench.common.program import Result, options, run
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
    parser.add_argument("--page-only", action="store_true", help="write --page of --state's rows")
    parser.add_argument("--logs", type=Path, help="folder for all that a missed row has")
    parser.add_argument("--list", action="store_true", help="list the faults, measure nothing")
    run(parser, result, show)


def result(args: argparse.Namespace) -> Result:
    """The benchmark's last line. Raises MissingError unless root."""
    if args.list:
        return {"bench": "campaign", "figures": {f.name: f.what for f in FAULTS}, "wanted": []}
    counts = QUICK if args.quick else Counts(args.submissions, args.jobs)
    state = State(args.state, counts)
    if args.page_only:
        _write(args.page, state)
    else:
        _measure(args, counts, state)
    rows = _rows(state)
    figures = {name: state.rows[name] for name in rows}
    return {"bench": "campaign", "figures": figures, "wanted": wanted(list(rows.values()))}


def _measure(args: argparse.Namespace, counts: Counts, state: State) -> None:
    if os.geteuid() != 0:
        raise MissingError("hosts, full disks and other users need root", "run it as root")
    for fault in chosen(args.only or ([f.name for f in FAULTS[:3]] if args.quick else [])):
        why = fault.missing()
        if why:
            print(f"{fault.name}: left out, {why}", file=sys.stderr)
        elif state.row(fault.name) is None or args.only:
            measured(fault, counts.of(fault), state, args.logs)
            _write(args.page, state)


def chosen(names: Sequence[str]) -> list[Fault]:
    """The faults of these names, all without one. Raises InputError."""
    known = {fault.name: fault for fault in FAULTS}
    for name in names:
        if name not in known:
            raise InputError("--only", f"{name!r} is none of {', '.join(known)}")
    return [fault for fault in FAULTS if not names or fault.name in names]


def _write(path: Path | None, state: State) -> None:
    if path is not None:
        path.write_text(page(FAULTS, _rows(state), state.rows, earlier(path)))


def _rows(state: State) -> dict[str, Row]:
    """Every row in the state, in the order of the table."""
    return {fault.name: row for fault in FAULTS if (row := state.row(fault.name)) is not None}


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
