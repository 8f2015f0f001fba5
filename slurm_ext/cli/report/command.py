"""`dlqueue report`: what was gained, wasted, predicted and decided, as a page or as figures.

Schema of --json: report/formats.py's `document`.
"""

import argparse
import pwd
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.history.views.visible import Viewer
    from slurm_ext.report.tables import Report

HELP = "Write what dlqueue gained, what the cluster wastes, and how predictions came out."
FORMATS = ("html", "md", "csv", "json")
MOST_PAGES = 1000
USERS = ("names", "pseudonyms", "none")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: standard output")
    parser.add_argument(
        "--format", choices=FORMATS, help="by FILE's ending; else html to a file, md without one"
    )
    parser.add_argument("--since", help="runs that ended since: 7d, 12h, 2026-01-31")
    parser.add_argument("--until", help="runs that ended before: 2026-01-31T08:00")
    parser.add_argument("--account", help="only this account's runs")
    parser.add_argument("--reader", metavar="USER", help="only what USER may see: own runs")
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="with pages of the first N jobs that it names"
    )
    parser.add_argument("--users", choices=USERS, help="how people are called (report.users)")


def run(args: argparse.Namespace) -> int:
    """Ask, then write; raises UsageError, HistoryError, InputError."""
    from slurm_ext.cli.common.output import put_file
    from slurm_ext.cli.common.settings import load_for_history
    from slurm_ext.report import plots
    from slurm_ext.report.formats import written

    settings = load_for_history(args.config)
    form = _format(args)
    if form == "html":
        plots.require()
    _check_jobs(args, form, args.users or settings["report.users"])
    site = Path(settings["report.templates"]) if settings["report.templates"] else None
    with _progress() as progress:
        report, pages = _report(args, settings, progress)
        progress("writing")
        text, faults = written(report, form, site, pages)
    for fault in faults:
        print(f"dlqueue report: {fault}", file=sys.stderr)
    if args.output is None:
        sys.stdout.write(text)
    else:
        put_file(args.output, text)
    return 0


def _check_jobs(args: argparse.Namespace, form: str, users: str) -> None:
    from slurm_ext.core.errors import UsageError

    if args.jobs is None:
        return
    if not 1 <= args.jobs <= MOST_PAGES:
        raise UsageError(f"--jobs {args.jobs} is not a number from 1 to {MOST_PAGES}")
    if form != "html" or args.output is None:
        raise UsageError("--jobs writes pages beside a page: name one with --output FILE.html")
    if users != "names":
        raise UsageError(f"--jobs names jobs and people, and users are {users} (report.users)")


def _viewer(args: argparse.Namespace) -> "Viewer":
    """The reader; without one, this process's user.

    Slurm is not asked whether it hides others' jobs from a reader: nothing of them is shown.
    """
    from slurm_ext.core.errors import UsageError
    from slurm_ext.history.views.visible import Viewer
    from slurm_ext.questions.answers import viewer_here

    if args.reader is None:
        return viewer_here()
    try:
        uid = pwd.getpwnam(args.reader).pw_uid
    except (KeyError, ValueError):
        raise UsageError(f"--reader {args.reader!r} is no user of this machine") from None
    return Viewer(user=args.reader, uid=uid, hides_others=True)


def _report(
    args: argparse.Namespace, settings: "Settings", progress: Callable[[str], None]
) -> "tuple[Report, dict[int, str]]":
    """The report, and links to the pages of its jobs, which are written."""
    from slurm_ext.core.errors import UsageError
    from slurm_ext.history.views.visible import open_visible
    from slurm_ext.report.sections.build import report_of

    since_s, until_s = (_seconds(args, name) for name in ("since", "until"))
    if since_s is not None and until_s is not None and since_s >= until_s:
        raise UsageError(f"--since {args.since} is not before --until {args.until}")
    path, wait_ms = settings.state_dir / "history.db", settings["history.busy_timeout_ms"]
    viewer = _viewer(args)
    with open_visible(path, viewer, busy_timeout_ms=wait_ms) as history:
        report = report_of(
            history,
            settings,
            since_s=since_s,
            until_s=until_s,
            account=args.account,
            users=args.users,
            for_reader=viewer.hides_others,
            progress=progress,
        )
        if args.jobs is None:
            return report, {}
        from slurm_ext.cli.report.job_pages import write_pages

        return report, write_pages(history, viewer, report, args.output, args.jobs, progress)


def _format(args: argparse.Namespace) -> str:
    ending = args.output.suffix.removeprefix(".") if args.output else "md"
    if args.json:
        _check_json(args.output, ending)
        return "json"
    if args.format is not None:
        return str(args.format)
    return ending if ending in FORMATS else "html"


def _check_json(output: Path | None, ending: str) -> None:
    """A page that holds JSON is nobody's wish. Raises UsageError."""
    from slurm_ext.core.errors import UsageError

    if output is not None and ending in FORMATS and ending != "json":
        raise UsageError(f"--json would write JSON into {output}: name a .json, or leave it out")


def _seconds(args: argparse.Namespace, name: str) -> float | None:
    from slurm_ext.cli.common.time_args import seconds_of

    text = getattr(args, name)
    return None if text is None else seconds_of(f"--{name}", text, time.time())


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Says what is being done, on stderr, where that is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("reading") as status:
        yield status.update
