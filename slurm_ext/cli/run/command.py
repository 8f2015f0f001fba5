"""`dlqueue run COMMAND...`: run a program under the probe, and keep what it measured.

It needs no root, no Slurm and no configuration: the history is the user's own (own_history.py).
The program keeps its exit status, signals, streams and files. Start and end have to be quick:
everything is imported where it is used.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

HELP = (
    "Run a program under dlqueue's probe and keep what it measured in a history of your own: no"
    " root, no Slurm, no configuration. Its exit status, signals and output stay its own."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's options; all that follows the program is the program's."""
    parser.add_argument("--off", action="store_true", help="run it bare: nothing is measured")
    parser.add_argument("--quiet", action="store_true", help="say nothing at its end")
    parser.add_argument("argv", nargs=argparse.REMAINDER, metavar="COMMAND", help="what to run")


def run(args: argparse.Namespace) -> int:
    """Run it; returns its exit status. Raises UsageError."""
    from slurm_ext.core.errors import UsageError

    argv = args.argv[1:] if args.argv[:1] == ["--"] else args.argv
    if not argv:
        raise UsageError("name the program to run: dlqueue run python train.py")
    if args.off or _measured_by_site(os.environ.get("DLQUEUE_RUN_DIR")):
        return _bare(argv)
    return _probed(argv, args)


def _measured_by_site(run_dir: str | None) -> bool:
    """True if the site's own probe is on, or the user has sent it away: a run counts once."""
    return os.environ.get("DLQUEUE") == "off" or bool(run_dir and Path(run_dir).is_dir())


def _bare(argv: list[str]) -> int:
    from slurm_ext.cli.run.child import not_started

    try:
        os.execvp(argv[0], argv)  # noqa: S606 (the user's own words, no shell between)
    except OSError as error:
        return not_started(argv[0], error)


def _probed(argv: list[str], args: argparse.Namespace) -> int:
    from slurm_ext.advisor.own_runs import own_history, settled
    from slurm_ext.cli.run.child import Child, leave_as, not_started
    from slurm_ext.cli.run.probed import Watched

    try:
        own, key = own_history.folder(), settled.key_of(argv, os.getcwd())  # noqa: PTH109 (quicker)
        watched = Watched(argv, settled.settled_workers(own, key))
    except OSError as error:  # a program is not kept from running by our disk
        print(f"dlqueue run: {error.filename}: {error.strerror}; not measured", file=sys.stderr)
        return _bare(argv)
    with watched:
        try:
            child = Child(argv, watched.env)
        except OSError as error:
            return not_started(argv[0], error)
        status = child.wait()
        document = watched.ended(status, child.cpu_s())
    number = own_history.keep(own, document)
    settled.remember(own, key, document["record"]["probe"]["summaries"])
    if not args.quiet:
        _tell(own, number, document, as_json=args.json)
    return leave_as(status)


def _tell(own: Path, number: int | None, document: dict[str, Any], *, as_json: bool) -> None:
    """One line on standard error; the program's own output stays as it is."""
    from slurm_ext.cli.run.advice import advice, first_of
    from slurm_ext.cli.run.end_line import end_json, end_line

    found = first_of(document)
    clause = advice(own, document, found)
    told = end_json(number, document, clause, found) if as_json else None
    print(told or end_line(number, document, clause), file=sys.stderr)
