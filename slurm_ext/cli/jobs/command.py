"""`dlqueue jobs`: a user's last jobs, a line each, with how much of what they held was used."""

import argparse
import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_ext.history.views.job_efficiency import JobFilter

HELP = "List your last jobs, a line each: how they ended and what of their resources they used."
EPILOG = """\
TIME is the share of the time limit, CPU and GPU are busy shares of what the job held, MEM is the
peak of what its processes held on the fullest node, WAIT is the share of the training's time that
waited for data. A dash: not measured. `dlqueue explain JOBID` says more of one job."""
MOST = 20


def configure(parser: argparse.ArgumentParser) -> None:
    """Add options, named as in reportseff where it has them."""
    parser.epilog, parser.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
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
    """Print the jobs; raises UsageError, HistoryError."""
    from slurm_ext.cli.common.settings import load_for_history
    from slurm_ext.cli.jobs import table
    from slurm_ext.history.views.job_efficiency import newest_jobs

    chosen = _filter(args)
    jobs = newest_jobs(load_for_history(args.config).state_dir / "history.db", chosen, args.limit)
    if args.json:
        import json

        print(json.dumps({"v": 1, "jobs": jobs}))
    elif args.parsable:
        print("\n".join(table.parsable(jobs)))
    else:
        table.show(jobs, table.nothing(chosen.user))
    return 0


def _filter(args: argparse.Namespace) -> "JobFilter":
    from slurm_ext.cli.common.time_args import seconds_of
    from slurm_ext.core.errors import UsageError
    from slurm_ext.history.views.job_efficiency import JobFilter
    from slurm_ext.node.record.fields import STATES
    from slurm_ext.slurm import hostlist

    if args.limit < 1:
        raise UsageError(f"--limit {args.limit}: a number from 1 on is wanted")
    states = tuple(args.state.upper().split(",")) if args.state else ()
    for state in states:
        if state not in STATES:
            raise UsageError(f"--state {state}: expected some of {', '.join(STATES)}")
    try:
        nodes = hostlist.expand(args.node or "")
    except ValueError as error:
        raise UsageError(f"--node: {error}") from None
    return JobFilter(
        user=None if args.all else args.user or _own_name(),
        partition=args.partition,
        since_s=seconds_of("--since", args.since, time.time()) if args.since else None,
        states=states,
        nodes=nodes,
    )


def _own_name() -> str:
    """The user's name, as records have it; the number where the system knows no name."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
