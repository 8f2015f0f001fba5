"""`dlqueue jobs`: a user's last jobs, a line each, with how much of what they held was used."""

import argparse
import time
from typing import Any

HELP = "List your last jobs, a line each: how they ended and what of their resources they used."
EPILOG = """\
TIME is the share of the time limit, CPU and GPU are busy shares of what the job held, MEM is the
peak of what its processes held on the fullest node, WAIT is the share of the training's time that
waited for data. A dash: not measured. `dlqueue explain JOBID` says more of one job."""
MOST = 20


def configure(parser: argparse.ArgumentParser) -> None:
    """Add options, named as in reportseff where it has them."""
    parser.epilog, parser.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    parser.add_argument("jobs", metavar="JOBID", nargs="*", help="only these: 1042, 1042_7")
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--user", "-u", help="this user's jobs (yours)")
    who.add_argument("--all", "-a", action="store_true", help="everybody's jobs")
    parser.add_argument("--partition", help="only jobs of this partition")
    parser.add_argument("--since", help="ended since: 7d, 12h, 2026-01-31 or 2026-01-31T08:00")
    parser.add_argument("--state", metavar="STATE[,STATE]", help="ended so: FAILED,TIMEOUT")
    parser.add_argument("--node", metavar="NODE[,NODE]", help="ran on one of these: n[01-04]")
    parser.add_argument("--limit", type=int, default=MOST, help=f"at most so many ({MOST})")
    parser.add_argument("--parsable", action="store_true", help="columns parted by |, no colours")


def run(args: argparse.Namespace) -> int:
    """Print the jobs; raises UsageError, HistoryError, RefusedError."""
    from slurm_ext.cli.common.settings import load_for_history
    from slurm_ext.cli.jobs import table
    from slurm_ext.questions.answers import document_of, user_here

    fields = _fields(args)
    document = document_of(load_for_history(args.config), "jobs", **fields)
    jobs = document["jobs"]
    if args.json:
        import json

        print(json.dumps(document))
    elif args.parsable:
        print("\n".join(table.parsable(jobs)))
    else:
        table.show(jobs, table.nothing(None if args.all else args.user or user_here()))
    return 0


def _fields(args: argparse.Namespace) -> dict[str, Any]:
    """Fields of the question. Raises UsageError."""
    from slurm_ext.cli.common.limits import check_limit
    from slurm_ext.cli.common.time_args import seconds_of
    from slurm_ext.questions.explain.named import parse_jobs

    check_limit(args.limit)
    parse_jobs(args.jobs)  # a typing error is one of usage, whoever answers
    since_s = seconds_of("--since", args.since, time.time()) if args.since else None
    return {
        **({"jobs": args.jobs} if args.jobs else {}),  # an older advisor knows no such field
        "user": args.user,
        "everybody": args.all,
        "partition": args.partition,
        "since_s": since_s,
        "states": _states(args.state) if args.state else [],
        "nodes": _nodes(args.node) if args.node else [],
        "limit": args.limit,
    }


def _states(text: str) -> list[str]:
    from slurm_ext.core.errors import UsageError
    from slurm_ext.node.record.fields import STATES

    states = text.upper().split(",")
    for state in states:
        if state not in STATES:
            raise UsageError(f"--state {state}: expected some of {', '.join(STATES)}")
    return states


def _nodes(text: str) -> list[str]:
    from slurm_ext.core.errors import UsageError
    from slurm_ext.slurm import hostlist

    try:
        return list(hostlist.expand(text))
    except ValueError as error:
        raise UsageError(f"--node: {error}") from None
